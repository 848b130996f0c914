"""`alebrije models`: the list of models."""

from __future__ import annotations

import pytest

from alebrije import models
from alebrije.cli import main


def test_every_model_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["models"])
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert models.catalog().keys() <= rows.keys()
    for name, words in (
        ("beta-vae", "beta-VAE images 502,005 1,152,000 x 64"),
        ("i2i-vit", "I2I-ViT episodes 8,482,800 160,000 x 32 40,000 x 32 450 x 16 Kim et al. 2023, SVIB"),
        ("moco", "MoCo v2 images 1,525,568 18,000 x 256"),
    ):
        assert words in " ".join(rows[name].split())

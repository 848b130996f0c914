"""The grid of training by test slots: models with other numbers of slots, and correlations."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from alebrije.adapters import Encoder, Preprocessing
from alebrije.instruments.grouping import INSTRUMENT
from alebrije.instruments.grouping.slots import CORRELATIONS, correlations, with_test_slots
from alebrije.results.published_tables import LINKS
from alebrije.studies.model import LoadedModel, View
from alebrije.train.plan import plan


@pytest.mark.parametrize("batch", [3, 64])
def test_other_numbers_of_slots_keep_the_batch_size(tmp_path: Path, batch: int) -> None:
    made = plan("slot-attention", preset_name="tiny", settings={"slots": 4})
    inner = Encoder(made.new_model(), preprocessing=Preprocessing(size=made.size), batch=batch, plan=made)
    view = View(torch.zeros(8, 3, 32, 32, dtype=torch.uint8))
    for row in with_test_slots(LoadedModel(inner), (2, 4)):
        assert row.encoder().batch == row.identity["batch"] == batch
        slots = row.encode(view).slots
        assert slots is not None
        assert slots.shape[:2] == (8, row.slots)
    own = with_test_slots(LoadedModel(inner), ())[0].encode(view).slots
    assert own is not None
    assert torch.equal(own, inner.codes(view.images))  # slots are initialised at random in each batch


def test_correlations_have_known_answers() -> None:
    cells = [(train, test) for train in (1, 2, 3) for test in (1, 2, 3)]
    grid = [(k, j, {"psnr": float(k - j), "fg-ari": float(j - k), "fg-arp": 2.0 * (k - j) + 1}) for k, j in cells]
    values = correlations(grid)
    assert [round(value.score or 0.0, 9) for value in values.values()] == [-1.0, 1.0, -1.0]
    seeds = [*grid, *((k, j, {**row, "psnr": (row["psnr"] or 0.0) + 4}) for k, j, row in grid)]
    assert correlations(seeds)["pearson(PSNR, FG-ARI)"].score == pytest.approx(-1.0)
    assert correlations(seeds)["pearson(PSNR, FG-ARI)"].details["n"] == 9


@pytest.mark.parametrize(
    ("cells", "psnr", "reason"),
    [
        ([(1, 1), (1, 2)], None, "fewer than 3"),
        ([(1, 1), (1, 2), (1, 3)], 7.0, "the same in every cell"),
        ([(1, 1), (2, 2), (3, 3)], None, "also tried the other way round"),
    ],
)
def test_an_undefined_correlation_has_a_reason(cells: list[tuple[int, int]], psnr: float | None, reason: str) -> None:
    entries = [(k, j, {"psnr": psnr or k + j / 10, "fg-ari": k * j + 0.5, "fg-arp": None}) for k, j in cells]
    values = correlations(entries)
    assert values["pearson(PSNR, FG-ARP)"].score is None
    assert any(value.score is None and reason in str(value.reason) for value in values.values())
    assert all(value.score is not None or value.reason for value in values.values())


def test_correlations_have_the_names_of_the_published_ones() -> None:
    published = {name for link in LINKS if link.table == "slots" for name in link.metrics}
    assert published == set(CORRELATIONS) <= set(INSTRUMENT.metrics)

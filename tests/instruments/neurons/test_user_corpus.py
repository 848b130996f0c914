"""Neurons on a user's own images: the same scores as the world they came from, and what does not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import alebrije
from alebrije.cli import main
from alebrije.data.datasets import datasets_for, write_dataset
from alebrije.data.user_arrays import write_user_images
from alebrije.errors import InputError
from alebrije.results import Result
from tests.cli.running import csv_rows, exit_code

RNG = np.random.default_rng(0)
COLOURS = RNG.integers(0, 256, (60, 3), dtype=np.uint8)
IMAGES = np.broadcast_to(COLOURS[:, :, None, None], (60, 3, 16, 16)).copy()
FACTORS = {"red": (COLOURS[:, 0] > 127).tolist(), "green": COLOURS[:, 1].tolist()}


class Colour(nn.Module):
    """The mean colour of each quarter."""

    def forward(self, images: Tensor) -> Tensor:
        return nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)


def scores(results: list[Result]) -> dict[tuple[object, ...], float | None]:
    """The scores of results by all labels but the world."""
    return {
        (*sorted((name, label) for name, label in result.cell.labels.items() if name != "world"), name): value.score
        for result in results
        for name, value in result.values.items()
    }


def test_the_export_of_a_world_scores_like_the_world(tmp_path: Path) -> None:
    (dataset,) = datasets_for("rooms", size=64, seed=0).values()
    write_dataset(dataset, 1000, tmp_path / "rooms")
    options = {"tests": ("SNC", "NK", "MIG"), "size": "tiny", "out": tmp_path / "out", "name": "mine"}
    world = alebrije.evaluate(Colour(), worlds="rooms", **options)
    own = alebrije.evaluate(Colour(), worlds=f"data:{tmp_path / 'rooms'}", **options)
    assert scores(own.results) == scores(world.results)
    assert world.score("snc") is not None


def test_arrays_frames_and_datasets_are_the_same_images(tmp_path: Path) -> None:
    class Dataset:
        """What a dataset of Hugging Face offers."""

        column_names = ("picture", "red", "green")

        def __len__(self) -> int:
            return len(IMAGES)

        def __getitem__(self, key: int | str) -> object:
            columns = {"picture": list(IMAGES), **FACTORS}
            return columns[key] if isinstance(key, str) else {name: column[key] for name, column in columns.items()}

    options = {"tests": "snc", "size": "tiny", "name": "mine"}
    table = np.array([FACTORS["red"], FACTORS["green"]], dtype=float).T
    found = [
        alebrije.evaluate(Colour(), images=IMAGES, factors=FACTORS, **options),
        alebrije.evaluate(Colour(), images=torch.from_numpy(IMAGES), factors=table, factor_names=FACTORS, **options),
        alebrije.evaluate(Colour(), images=Dataset(), **options),
    ]
    assert len({report.score("snc", world="data") for report in found}) == 1
    assert found[0].score("snc") is not None
    assert found[0].value("snc").details["factor_names"] == ["red", "green"]


def test_what_was_left_out_is_told(tmp_path: Path) -> None:
    columns = {**FACTORS, "id": [f"a{row}" for row in range(60)]}
    columns["green"] = [None, *columns["green"][1:]]
    report = alebrije.evaluate(Colour(), "snc", "tiny", images=IMAGES, factors=columns, out=tmp_path)
    notes = report.value("snc").details["attributes"]
    assert any("id is left out" in note for note in notes)
    assert any("1 of 60 rows" in note for note in notes)
    assert "id is left out" in report.save(tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"images": IMAGES}, "has neither masks for grouping nor attributes for neurons"),
        ({"images": IMAGES, "tests": "neurons"}, "has no table of attributes"),
        ({"images": IMAGES, "tests": "grouping", "factors": FACTORS}, "has no masks"),
        ({"images": IMAGES[:9], "factors": {"red": FACTORS["red"][:9]}}, "9 images have a value of every attribute"),
        ({"images": IMAGES, "factors": FACTORS, "worlds": "rooms"}, "take the place of rooms"),
        ({"images": IMAGES, "factors": FACTORS, "factor_names": ["a"]}, "leave out factor_names"),
        ({"images": IMAGES, "factors": np.zeros((60, 2)), "factor_names": ["a"]}, "must name each of the 2 factors"),
        ({"factors": FACTORS}, "pass the images too"),
        ({"images": IMAGES, "factors": FACTORS, "tests": "analogy"}, "analogy has its own scenes"),
        ({"images": IMAGES, "factors": {"red": [1] * 60}}, "is 1 in every row"),
    ],
)
def test_what_does_not_fit_is_one_sentence(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        alebrije.evaluate(Colour(), size="tiny", **options)  # type: ignore[arg-type]
    assert sentence in str(caught.value)


def test_bad_folders_end_the_command_with_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/a.txt").write_text("text")
    wide = write_user_images(tmp_path / "wide", IMAGES).folder
    many = tmp_path / "many"
    many.mkdir()
    Image.fromarray(IMAGES[0].transpose(1, 2, 0)).save(many / "0.png")
    names = ",".join(f"c{number}" for number in range(10_000))
    (many / "attributes.csv").write_text(f"image,{names}\n0.png{',1' * 10_000}\n")
    for folder, sentence in (
        (tmp_path / "texts", "holds no images"),
        (many, "there are 10,000 attributes"),
        (wide, "has neither masks"),
        (tmp_path / "none", "there is no such folder"),
    ):
        arguments = ["eval", "noise", "--size", "tiny", "--worlds", f"data:{folder}", "--out", str(tmp_path / "out")]
        assert exit_code(arguments) == 2
        assert sentence in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_a_study_reads_a_folder_and_trains_nothing_on_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_user_images(tmp_path / "own", IMAGES, attributes=FACTORS).folder
    study = ["study", "neurons", "--size", "tiny", "--worlds", f"data:{folder}", "--out", str(tmp_path / "out")]
    main([*study, "--models", "pixels", "oracle", "--metrics", "SNC"])
    capsys.readouterr()
    main(["results", str(tmp_path / "out"), "--query", "metric=SNC model=oracle", "--format", "csv"])
    (row,) = csv_rows(capsys)
    assert float(row["value"]) == 1.0
    assert row["world"] == f"data:{folder}"
    assert exit_code([*study, "--models", "beta-vae"]) == 2
    assert "cannot be trained on images of a file" in capsys.readouterr().err

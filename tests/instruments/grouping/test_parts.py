"""Scores of all frames jointly, of all but the first, and of each alone, on labels with known answers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alebrije.instruments.grouping.parts import AFTER_FIRST, EACH, PARTS, metric_names, record_of, score_parts
from alebrije.metrics import catalog

IMAGE = torch.kron(torch.tensor([[0, 1], [2, 3]]), torch.ones(4, 4, dtype=torch.long))  # three objects on a ground
TRUE = IMAGE.expand(2, 5, 8, 8).byte()  # two videos of five frames


def scores(name: str, groups: torch.Tensor, true: torch.Tensor = TRUE) -> list[float]:
    return [float(score) for score in score_parts(name, true, groups).each]


def test_an_object_that_changes_its_slot_is_split() -> None:
    """Each frame is perfect, and all together are not: of two objects that swap their slots, each has both."""
    groups = TRUE.long().clone()
    later = groups[:, 3:]
    groups[:, 3:] = torch.where(later == 1, 2, torch.where(later == 2, 1, later))
    assert scores(f"fg-ari{EACH}", groups) == [1.0, 1.0]
    for name in ("fg-ari", "fg-arp", "fg-arr", "ari"):
        assert max(scores(name, groups)) < 0.9, name
    assert scores("fg-ari", TRUE.long()) == [1.0, 1.0]


def test_a_wrong_first_frame_counts_only_with_it() -> None:
    groups = TRUE.long().clone()
    groups[:, 0] = 3  # everything in the slot of one object
    assert scores(f"fg-ari{AFTER_FIRST}", groups) == [1.0, 1.0]
    assert max(scores("fg-ari", groups)) < 1
    found = score_parts(f"fg-ari{EACH}", TRUE, groups)
    assert found.details["by frame"] == [0.0, 1.0, 1.0, 1.0, 1.0]
    assert found.each.tolist() == [pytest.approx(0.8)] * 2


def test_jointly_is_one_tall_image() -> None:
    """One labelling of all pixels of all frames, by the metric of an image with these pixels."""
    random = np.random.default_rng(0)
    true, groups = (torch.from_numpy(random.integers(0, 5, (2, 3, 4, 4))) for _ in range(2))
    for name in (*metric_names("videos", True)[:4], "miou", "mbo", "sc", "msc", "ami"):
        tall = record_of(name)(true.reshape(2, 12, 4), groups.reshape(2, 12, 4))
        assert scores(name, groups, true) == pytest.approx(tall.tolist()), name


def test_frames_without_objects_are_left_out() -> None:
    true = TRUE.clone()
    true[:, 1] = 0
    found = score_parts(f"fg-ari{EACH}", true, TRUE.long())
    assert found.each.tolist() == [1.0, 1.0]
    assert np.isnan(found.details["by frame"][1])


def test_every_value_has_a_record() -> None:
    for shows in ("images", "videos", "views"):
        names = metric_names(shows, True)  # type: ignore[arg-type]
        assert len(set(names)) == len(names)
        assert all(record_of(name).name in catalog() for name in names)
    assert set(PARTS) <= set(metric_names("videos", False))
    assert "ami" not in metric_names("videos", False), "it takes seconds for each video"

"""Split and merged objects with known answers, and their pictures."""

from __future__ import annotations

import numpy as np
import pytest

from alebrije.errors import InputError
from alebrije.instruments.grouping.pictures import MERGED, faults, marked_picture, matched_colors
from alebrije.metrics import adjusted_rand_precision, adjusted_rand_recall
from alebrije.sheets.sheet import GROUND, OBJECTS

TRUE = np.zeros((12, 12), np.uint8)
TRUE[1:5, 1:5], TRUE[1:5, 7:11], TRUE[7:11, 1:5] = 1, 2, 3
IMAGE = np.full((12, 12, 3), 120, np.uint8)


def merged():
    groups = TRUE.astype(int) + 10
    groups[TRUE == 2] = 11
    return groups


def split():
    groups = TRUE.astype(int) + 10
    groups[3:5, 1:5] = 99
    return groups


def test_a_perfect_grouping_has_no_faults_whatever_its_numbers():
    found = faults(TRUE, 7 * TRUE.astype(int) - 3)
    assert (found.objects, found.split, found.merged) == (3, (), ())


def test_two_objects_in_one_group_are_merged_and_not_split():
    found = faults(TRUE, merged())
    assert (found.split, found.merged) == ((), (11,))
    assert str(found) == "0 of 3 objects split, 1 group over several objects"
    scores = (
        adjusted_rand_precision(TRUE[None], merged()[None], ignore=0),
        adjusted_rand_recall(TRUE[None], merged()[None], ignore=0),
    )
    assert scores[0][0] < 1 == scores[1][0], "marks and scores agree"


def test_an_object_cut_in_two_is_split_and_not_merged():
    found = faults(TRUE, split())
    assert (found.split, found.merged) == ((1,), ())
    assert adjusted_rand_recall(TRUE[None], split()[None], ignore=0)[0] < 1


def test_an_object_that_lacks_a_few_pixels_is_not_split():
    groups = TRUE.astype(int)
    groups[1, 1:4] = 9  # 3 of 16 pixels
    assert faults(TRUE, groups).split == ()
    groups[1:3, 1:4] = 9  # 6 of 16
    assert faults(TRUE, groups).split == (1,)


def test_random_groups_split_every_object_and_cover_none():
    groups = np.random.default_rng(0).integers(0, 7, TRUE.shape)
    found = faults(TRUE, groups)
    assert (found.split, found.merged) == ((1, 2, 3), ())


def test_an_image_without_objects_has_no_faults():
    found = faults(np.zeros((4, 4), int), np.arange(16).reshape(4, 4))
    assert (found.objects, found.split, found.merged) == (0, (), ())


def test_groups_take_the_colours_of_their_objects():
    colors = matched_colors(TRUE, 50 - TRUE.astype(int))
    assert colors[0, 0].tolist() == list(GROUND)
    for label in (1, 2, 3):
        assert np.unique(colors[label == TRUE], axis=0).tolist() == [list(OBJECTS[label - 1])]
    more = matched_colors(TRUE, split())
    assert more[3, 2].tolist() not in [list(OBJECTS[label]) for label in (1, 2)], "no colour of another object"


def test_marks_are_where_the_faults_are():
    size = 12
    plain, fine, coarse = (marked_picture(IMAGE, TRUE, groups) for groups in (TRUE, split(), merged()))
    scale = len(plain) // size
    ends = {(0, 0, 0), (255, 255, 255)}
    assert not {tuple(pixel) for pixel in plain.reshape(-1, 3).tolist()} & {*ends, MERGED}
    broken = np.isin(fine, (0, 255)).all(2)
    assert {tuple(pixel) for pixel in fine[broken].tolist()} == ends, "black and white dashes"
    rows, columns = np.nonzero(broken)
    assert max(rows.max(), columns.max()) <= 5 * scale + 1, "only around the first object"
    solid = (coarse == MERGED).all(2)
    rows, columns = np.nonzero(solid)
    assert rows.max() <= 5 * scale + 1
    assert columns.max() > 9 * scale, "around both objects of the group"


def test_the_marked_picture_is_large_enough_to_see_lines():
    assert min(marked_picture(IMAGE, TRUE, TRUE).shape[:2]) >= 144


def test_maps_of_different_sizes_are_refused():
    with pytest.raises(InputError, match="two label maps"):
        faults(TRUE, TRUE[:4])
    with pytest.raises(InputError, match="must have the same size"):
        marked_picture(IMAGE[:4], TRUE, TRUE)

"""Suggestions for mistyped names."""

from __future__ import annotations

from alebrije.suggest import closest, did_you_mean


def test_the_closest_name_is_suggested_whatever_its_case() -> None:
    assert did_you_mean("Sead", ["seed", "size"]) == "; did you mean 'seed'?"
    assert closest("SPRITE", ["Sprites", "clevr"]) == "Sprites"


def test_a_short_list_is_shown_and_a_long_one_is_not() -> None:
    assert did_you_mean("xyz", ["seed", "size"]) == "; choose from seed, size"
    assert did_you_mean("xyz", [f"name {i}" for i in range(50)]) == ""
    assert did_you_mean("xyz", [f"name {i}" for i in range(50)], "`alebrije models` lists them").endswith("lists them")
    assert did_you_mean("xyz", []) == ""

"""The causal graphs of rules."""

from __future__ import annotations

import pytest
import torch

from alebrije import worlds
from alebrije.instruments.imagination.rule_graphs import rule_charts, rule_graph
from alebrije.instruments.imagination.study import ANALYSIS, jobs
from alebrije.scenes import apply_rule
from alebrije.scenes.rules import ANALYSIS_RULES, RULES
from alebrije.studies.folder import ResultFolder
from alebrije.studies.request import Request

SIXTEEN = tuple(rule for kind in ANALYSIS_RULES.values() for rule in kind)


@pytest.mark.parametrize("name", RULES)
def test_arrows_are_what_matters(name: str) -> None:
    """Changing a factor of the given scene changes exactly the factors to which it has an arrow or that stay."""
    world = worlds.get("sprites")
    scenes = world.sample(200, seed=0)
    before = apply_rule(RULES[name], scenes)
    arrows = set(rule_graph(RULES[name]).arrows)
    targets = {target for _, target in arrows}
    factors = world.vocabulary.names
    for owner, row in (("self", 0), ("other", 1)):
        for axis, factor in enumerate(factors):
            changed = scenes.factors.clone()
            changed[:, row, axis] = (changed[:, row, axis] + 1) % world.vocabulary.counts[axis]
            after = apply_rule(RULES[name], scenes.__class__.of(scenes.vocabulary, changed, scenes.position))
            for target in (*factors, "position"):
                moved = _value(before, target) != _value(after, target)
                stays = f"next {target}" not in targets and owner == "self" and target == factor
                expected = stays or (f"{owner} {factor}", f"next {target}") in arrows
                assert bool(moved.any()) is expected, (owner, factor, target)


def _value(scenes: object, name: str) -> torch.Tensor:
    """A factor of the first object of each scene."""
    if name == "position":
        return scenes.position[:, 0].sum(-1)  # type: ignore[attr-defined, no-any-return]
    return scenes.factors[:, 0, scenes.vocabulary.axis(name)]  # type: ignore[attr-defined, no-any-return]


def test_sixteen_graphs() -> None:
    (chart,) = rule_charts(reversed(SIXTEEN))
    titles = [axes.get_title() for axes in chart.figure().axes]
    assert [title.split()[0] for title in titles if title][:4] == ["CP", "ShAC", "ShAASh", "CAASi"]
    assert sum(bool(title) for title in titles) == 16
    assert "MNMix2 (M-NA)" in titles
    assert chart.wide
    assert rule_charts(["mine"]) == []


@pytest.mark.parametrize(("size", "alphas"), [("tiny", 1), ("small", 2), ("paper", 4)])
def test_the_analysis_is_a_study(folder: ResultFolder, size: str, alphas: int) -> None:
    request = Request(size=size, models=("oracle",), worlds=("sprites",), rules=(ANALYSIS, "S-A"))  # type: ignore[arg-type]
    rules = [job.cell.labels["rule"] for job in jobs(folder, request)]
    assert len(rules) == 17 * alphas
    assert set(rules) == {*SIXTEEN, "S-A"}

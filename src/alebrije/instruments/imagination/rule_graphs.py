"""The rules as causal graphs: which factors of the given scene decide the factors of the next one.

A drawing of our own of what Figure 16 of Kim et al. 2023 shows for the sixteen rules of the analysis.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from alebrije.report.panels import MOST_NARROW, Graph, graph_panels
from alebrije.report.parts import Chart, slug
from alebrije.scenes import Rule
from alebrije.scenes.rules import BENCHMARK_RULES, RULES, Move, Update

_FACTORS = ("color", "shape", "size", "position")
_OWNERS = {"self": "this object", "other": "the other one", "next": "this object, next"}
_AT = {"self": (0.0, 0.0), "other": (0.0, 5.2), "next": (2.4, 2.6)}  # the first factor of each
_GROUPS = tuple((name, _AT[owner][0], _AT[owner][1] - 0.95) for owner, name in _OWNERS.items())
_WORDS = (
    "Arrows lead from what decides a factor to that factor in the next scene, for either object. Two arrows: the "
    "values are added, modulo the number of values. A rule that adds the position adds its quadrant, 1 to 4. Factors "
    "without an arrow stay as they are."
)


def rule_charts(names: Iterable[str]) -> list[Chart]:
    """One chart with the graphs of these rules; none without known rules."""
    known = sorted((name for name in names if name in RULES), key=list(RULES).index)
    if not known:
        return []
    draw = partial(graph_panels, {rule_title(name): rule_graph(RULES[name]) for name in known}, _GROUPS)
    return [Chart(slug("imagination", "rules"), "The rules", _WORDS, draw, len(known) > MOST_NARROW)]


def rule_title(name: str) -> str:
    """The name of a rule, and that of the task of the benchmark with the same updates.

    >>> rule_title("ShAASh"), rule_title("M-A"), rule_title("mine")
    ('ShAASh (S-A)', 'M-A', 'mine')
    """
    if name not in RULES or name in BENCHMARK_RULES:
        return name
    same = [task for task in BENCHMARK_RULES if RULES[task].updates == RULES[name].updates]
    return f"{name} ({same[0]})" if same else name


def rule_graph(rule: Rule) -> Graph:
    """The causal graph of a rule, and its updates in words."""
    nodes = {
        f"{owner} {factor}": (_AT[owner][0], _AT[owner][1] + row)
        for owner in _OWNERS
        for row, factor in enumerate(_FACTORS)
    }
    labels = {node: node.split()[1] for node in nodes}
    return Graph(nodes, labels, tuple(_arrows(rule)), rule_words(rule))


def rule_words(rule: Rule) -> tuple[str, ...]:
    """The updates of a rule in words.

    >>> rule_words(RULES["M-NA"])
    ('color ← shape + quadrant', "size ← other's color + other's quadrant")
    >>> rule_words(RULES["CP"]), rule_words(RULES["NCP"])
    (('position ← position + a step to the right',), ("position ← position + a step chosen by other's size",))
    """
    return tuple(_words(update) for update in rule.updates)


def _words(update: Update | Move) -> str:
    if isinstance(update, Update):
        return f"{update.target} ← {' + '.join(_parent_words(*parent) for parent in update.parents)}"
    if update.chooser is not None:
        return f"position ← position + a step chosen by {_parent_words(*update.chooser)}"
    x, y = update.steps[0]
    directions = [word for word, much in (("right", x), ("left", -x), ("up", y), ("down", -y)) if much > 0]
    return f"position ← position + a step {'to the ' if abs(x) > 0 else ''}{' and '.join(directions)}"


def _parent_words(owner: str, name: str) -> str:
    return name if owner == "self" else f"other's {name}"


def _arrows(rule: Rule) -> Iterator[tuple[str, str]]:
    for update in rule.updates:
        if isinstance(update, Update):
            parents = update.parents
            target = update.target
        else:
            parents = (("self", "position"), *((update.chooser,) if update.chooser is not None else ()))
            target = "position"
        for owner, name in parents:
            yield f"{owner} {'position' if name == 'quadrant' else name}", f"next {target}"

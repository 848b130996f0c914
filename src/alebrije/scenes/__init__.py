"""Factors, vocabularies, scenes, rules and combination splits. No pixels."""

from alebrije.scenes.combinations import Split, core_combinations, split
from alebrije.scenes.episodes import Episodes
from alebrije.scenes.rules import ANALYSIS_RULES, Rule, apply_rule, rule
from alebrije.scenes.scene_json import scenes_from_json, scenes_to_json
from alebrije.scenes.scenes import Scenes
from alebrije.scenes.vocabulary import Combination, Factor, Vocabulary

__all__ = [
    "ANALYSIS_RULES",
    "Combination",
    "Episodes",
    "Factor",
    "Rule",
    "Scenes",
    "Split",
    "Vocabulary",
    "apply_rule",
    "core_combinations",
    "rule",
    "scenes_from_json",
    "scenes_to_json",
    "split",
]

"""What exists: factors, vocabularies, scenes, rules and combination splits. No pixels."""

from alebrije.scenes.episodes import Episodes
from alebrije.scenes.scenes import Scenes
from alebrije.scenes.vocabulary import Combination, Factor, Vocabulary

__all__ = ["Combination", "Episodes", "Factor", "Scenes", "Vocabulary"]

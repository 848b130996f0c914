"""The zoo: trained models that come with alebrije, each with a card that says how it was trained and what it scores.

`zoo.load(NAME)` returns the network; `zoo:NAME` is its spec, as in ``alebrije.evaluate("zoo:slot-attention")``.
"""

from alebrije.zoo.cards import RESULTS, Card, CardScore, Training, card, cards, names
from alebrije.zoo.entries import add_run, load

__all__ = ["RESULTS", "Card", "CardScore", "Training", "add_run", "card", "cards", "load", "names"]

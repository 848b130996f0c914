"""The zoo: trained models that come with alebrije, each with a card that says how it was trained and what it scores.

>>> from alebrije import zoo
>>> "annealed-vae" in zoo.names()
True
>>> zoo.card("annealed-vae").world
'dsprites'

`zoo.load(NAME)` returns the network; `zoo:NAME` is its spec, as in ``alebrije.evaluate("zoo:annealed-vae")``.
"""

from alebrije.zoo.cards import RESULTS, Card, CardScore, Training, card, cards, names
from alebrije.zoo.entries import add_run, load

__all__ = ["RESULTS", "Card", "CardScore", "Training", "add_run", "card", "cards", "load", "names"]

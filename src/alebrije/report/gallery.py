"""The gallery of the demonstration: a few pictures of every world, an episode of a task, an analogy."""

from __future__ import annotations

from dataclasses import replace

from alebrije import worlds
from alebrije.report.contents import Side, analogy_cards, one_thread, scene_cards
from alebrije.report.sheets import Card
from alebrije.scenes import Episodes

WORLDS = {
    "sprites": "two flat shapes (SVIB)",
    "clevr": "two solid objects (SVIB)",
    "clevrtex": "two objects and a ground of eight surfaces (SVIB)",
    "dsprites": "one white shape, every combination of its factors",
    "rooms": "one object in a room, every combination of its factors",
    "clevr6": "three to six objects (CLEVR)",
    "coat": "three to six objects on coloured grounds (COAT)",
}
EPISODES = ("sprites", "clevr", "clevrtex")
RULE = "M-NA"
SCENES = 3  # of every world
SIZE = 128


@one_thread()
def world_card(name: str, seed: int) -> Card:
    """A few pictures of a world, and their masks below them."""
    world = worlds.get(name)
    scenes = world.sample(SCENES, seed)
    frames = world.render(scenes, size=SIZE)
    cards = scene_cards([Side("", scenes, frames.images, frames.masks)])
    pictures, masks = (tuple(replace(card.rows[0][place], label="") for card in cards) for place in range(2))
    return Card(f"{name}: {WORLDS[name]}", (pictures, masks))


@one_thread()
def episode_cards(seed: int) -> tuple[Card, ...]:
    """One test episode of the rule in each world that has rules."""
    return tuple(_episode_card(name, worlds.task(name, RULE).test(1, seed)) for name in EPISODES)


def _episode_card(name: str, episodes: Episodes) -> Card:
    draw = worlds.get(name).render
    before, after = (draw(scenes, size=SIZE) for scenes in (episodes.source, episodes.target))
    (card,) = scene_cards(
        [
            Side("source", episodes.source, before.images, before.masks),
            Side("target", episodes.target, after.images, after.masks),
        ]
    )
    return Card(name, card.rows, card.lines)


@one_thread()
def analogy_card(seed: int) -> Card:
    """One analogy whose objects hide each other, with its hard negatives."""
    (card,) = analogy_cards(worlds.analogies("clevr", 1, seed), SIZE)
    return Card("", card.rows, card.lines)

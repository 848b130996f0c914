"""The gallery of the toys page: a few images of every world, episodes of a task, and an analogy."""

from __future__ import annotations

from dataclasses import replace

from alebrije import worlds
from alebrije.scenes import Episodes
from alebrije.sheets.contact_sheet import SceneImages, analogy_cards, one_thread, scene_cards
from alebrije.sheets.sheet import Card

WORLDS = {
    "sprites": "two flat shapes (SVIB)",
    "clevr": "two solid objects (SVIB)",
    "clevrtex": "two objects and a background in eight materials (SVIB)",
    "dsprites": "one white shape, every combination of its factors",
    "rooms": "one object in a room, every combination of its factors",
    "arm": "one object on an arm, every combination of its factors",
    "clevr6": "three to six objects (CLEVR)",
    "coat": "three to six objects on coloured backgrounds (COAT)",
}
EPISODES = ("sprites", "clevr", "clevrtex")
RULE = "M-NA"
SCENES = 3  # of every world
SIZE = 128


@one_thread()
def world_card(name: str, seed: int) -> Card:
    """A few images of a world, with their masks below."""
    world = worlds.get(name)
    scenes = world.sample(SCENES, seed)
    frames = world.render(scenes, size=SIZE)
    cards = scene_cards([SceneImages("", scenes, frames.images, frames.masks)])
    pictures, masks = (tuple(replace(card.rows[0][column], label="") for card in cards) for column in range(2))
    return Card(f"{name}: {WORLDS[name]}", (pictures, masks))


@one_thread()
def episode_cards(seed: int) -> tuple[Card, ...]:
    """One test episode of the rule in each world with rules."""
    return tuple(_episode_card(name, worlds.task(name, RULE).test(1, seed)) for name in EPISODES)


def _episode_card(name: str, episodes: Episodes) -> Card:
    render = worlds.get(name).render
    before, after = (render(scenes, size=SIZE) for scenes in (episodes.source, episodes.target))
    (card,) = scene_cards(
        [
            SceneImages("source", episodes.source, before.images, before.masks),
            SceneImages("target", episodes.target, after.images, after.masks),
        ]
    )
    return Card(name, card.rows, card.lines)


@one_thread()
def analogy_card(seed: int) -> Card:
    """One analogy with occlusion, and its hard negatives."""
    (card,) = analogy_cards(worlds.analogies("clevr", 1, seed), SIZE)
    return Card("", card.rows, card.lines)

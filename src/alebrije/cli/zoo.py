"""`alebrije zoo`: list the trained models that come with alebrije."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from alebrije.cli.printing import print_table
from alebrije.errors import plain

if TYPE_CHECKING:
    from alebrije.zoo import Card, CardScore


@dataclass(frozen=True)
class Zoo:
    """List the trained models that come with alebrije: world, size, scores, and how each was trained."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[NAME]")] = ""
    """A model of the zoo: print its card, with every setting and the command that trains it. Default: all."""
    format: Literal["text", "json"] = "text"
    """Format of the list."""

    def run(self) -> None:
        """Print the list, or one card."""
        from alebrije import zoo

        if self.name:
            print(zoo.card(self.name).model_dump_json(indent=2))
        elif self.format == "json":
            print(json.dumps([_row(card) for card in zoo.cards()], indent=2))
        else:
            _print_list(zoo.cards())


def _row(card: Card) -> dict[str, object]:
    """The card with what follows from it, without its settings."""
    stored = card.model_dump(mode="json", exclude={"plan", "weights"})
    about = {"model": card.plan["model"], "world": card.world, "megabytes": round(card.megabytes, 3)}
    plan = {"preset": card.plan["preset"], "seed": card.plan["seed"], "sha256": card.weights.sha256}
    return {"name": card.name, "spec": f"zoo:{card.name}", **about, **plan, **stored}


def _print_list(cards: tuple[Card, ...]) -> None:
    from rich.table import Table

    table = Table("name", "model", "world", "MB", "scores", title="Zoo", box=None, pad_edge=False)
    for title in ("preset", "seed", "steps", "GPU minutes", "commit"):
        table.add_column(title)
    for card in cards:
        minutes = "" if card.training.minutes is None else f"{card.training.minutes:.1f}"
        scores = ", ".join(score_words(score) for score in card.scores) or "not examined yet"
        trained = (card.plan["preset"], card.plan["seed"], f"{card.training.steps:,}", minutes)
        row = (card.name, card.title, card.world, f"{card.megabytes:.1f}", scores, *trained)
        table.add_row(*(plain(str(cell)) for cell in (*row, (card.training.commit or "")[:7])))
    print_table(table)
    total, plural = sum(card.megabytes for card in cards), "" if len(cards) == 1 else "s"
    print(
        f"\n{len(cards)} model{plural}, {total:.1f} MB. `alebrije zoo NAME` prints the card of one, with the command "
        "that trains it.\nExamine one: `alebrije eval zoo:NAME --out DIR`."
    )


def score_words(score: CardScore) -> str:
    """Such as "FG-ARI 0.96 (0.95 to 0.97)"."""
    interval = "" if score.low is None or score.high is None else f" ({score.low:.3g} to {score.high:.3g})"
    return f"{score.metric} {score.value:.3g}{interval}"

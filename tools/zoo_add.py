"""Make an entry of the zoo from a finished training run. Run it in the root of the repository.

    python tools/zoo_add.py RUN NAME --command 'alebrije train ...' [--minutes M] [--machine TEXT] [--commit HASH]

NAME is the name of the model if it learned from its usual world, else with the world: annealed-vae-rooms.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from alebrije.zoo import add_run


def main() -> None:
    """Write the weights in half precision and the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("--command", required=True, help="the command that trained it")
    parser.add_argument("--minutes", type=float, help="what the run took")
    parser.add_argument("--machine", default="cpu", help='such as "NVIDIA H200, torch 2.11.0"')
    parser.add_argument("--commit", help="the commit of alebrije that trained it")
    parser.add_argument("--note", default="")
    given = vars(parser.parse_args())
    made = add_run(given.pop("run"), given.pop("name"), given.pop("command"), **given)
    print(f"{made.name}: {made.title} on {made.world}, {made.megabytes:.2f} MB, {made.training.steps:,} steps")


if __name__ == "__main__":
    main()

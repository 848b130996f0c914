"""`alebrije models`: list the models that can be trained."""

from __future__ import annotations

from dataclasses import dataclass

from alebrije.cli.printing import print_table


@dataclass(frozen=True)
class Models:
    """List every model: what it learns from, its parameter count, its presets and its source."""

    def run(self) -> None:
        """Print the catalog."""
        from rich.table import Table

        from alebrije.models import catalog
        from alebrije.train.plan import plan
        from alebrije.train.presets import PRESETS

        table = Table("name", "model", "learns from", "parameters", title="Models", box=None, pad_edge=False)
        for title in ("paper", "small", "tiny", "source"):
            table.add_column(title)
        for record in catalog().values():
            paper = plan(record.name, preset_name="paper", dry_run=False)
            recipes = [presets[0].recipe for presets in PRESETS[record.name].values()]
            steps = [f"{recipe.steps:,} x {recipe.batch}" for recipe in recipes]
            count = f"{record.parameter_count(**paper.settings):,}"
            table.add_row(record.name, record.title, record.learns_from, count, *steps, record.cites)
        print_table(table)
        print("\nPresets are shown as steps x batch size. Train one: `alebrije train NAME --preset ... --out DIR`.")

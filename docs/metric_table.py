"""Writes the metric table of the README anew from the catalog: `make readme`."""

from pathlib import Path

from alebrije.report.tables import catalog_markdown

START, END = "<!-- metrics: made by `make readme` -->", "<!-- end of metrics -->"

if __name__ == "__main__":
    readme = Path(__file__).parent.parent / "README.md"
    before, rest = readme.read_text(encoding="utf-8").split(START)
    readme.write_text(before + f"{START}\n{catalog_markdown()}\n{END}" + rest.split(END)[1], encoding="utf-8")

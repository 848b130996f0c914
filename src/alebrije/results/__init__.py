"""What was found: validated JSON files, written so that a reader never sees half of one."""

from alebrije.atomic import write_atomically
from alebrije.results.cells import Cell, Machine, Result, ScoreInterval, Value
from alebrije.results.compare import compare
from alebrije.results.estimates import Estimate
from alebrije.results.folding import folded
from alebrije.results.merging import latest, merged
from alebrije.results.published import Published, published, published_for
from alebrije.results.scores import SCHEMA_VERSION, MetricResult, Scores, plain
from alebrije.results.store import DamagedResultWarning, Problem, Store
from alebrije.results.tables import Table, table

__all__ = [
    "SCHEMA_VERSION",
    "Cell",
    "DamagedResultWarning",
    "Estimate",
    "Machine",
    "MetricResult",
    "Problem",
    "Published",
    "Result",
    "ScoreInterval",
    "Scores",
    "Store",
    "Table",
    "Value",
    "compare",
    "folded",
    "latest",
    "merged",
    "plain",
    "published",
    "published_for",
    "table",
    "write_atomically",
]

"""Results of studies: one validated JSON file per cell, tables of them, and the papers' published numbers."""

from alebrije.results.cells import Cell, Machine, Result, ScoreInterval, Value
from alebrije.results.compare import compare
from alebrije.results.estimates import Estimate
from alebrije.results.merge import latest_results, merge_results
from alebrije.results.published import Published, published, published_for
from alebrije.results.scores import SCHEMA_VERSION, MetricResult, Scores
from alebrije.results.store import DamagedResultWarning, Problem, Store
from alebrije.results.tables import ResultTable, result_table
from alebrije.results.text_table import fit_to_width

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
    "ResultTable",
    "ScoreInterval",
    "Scores",
    "Store",
    "Value",
    "compare",
    "fit_to_width",
    "latest_results",
    "merge_results",
    "published",
    "published_for",
    "result_table",
]

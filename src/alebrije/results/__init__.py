"""What was found: validated JSON files, written so that a reader never sees half of one."""

from alebrije.results.files import write_atomically
from alebrije.results.scores import SCHEMA_VERSION, MetricResult, Scores, plain

__all__ = ["SCHEMA_VERSION", "MetricResult", "Scores", "plain", "write_atomically"]

"""Errors and warnings that a user can do something about."""


class InputError(ValueError):
    """Bad input. The message says in one sentence what is wrong and what is expected."""


class DivergedError(RuntimeError):
    """Training diverged: a loss or a weight is NaN or infinite. The message says where and what is left."""


class UndefinedMetricWarning(UserWarning):
    """A score is NaN because the metric is undefined for this input. The message says why."""

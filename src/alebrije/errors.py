"""What goes wrong for a reason the user can mend."""


class InputError(ValueError):
    """The input cannot be used as it is; the message says in one sentence what was wanted."""


class DivergedError(RuntimeError):
    """Training broke: a loss or a weight is no longer a number; the message says where and what is left."""


class UndefinedMetricWarning(UserWarning):
    """A value is not a number because the metric is not defined there; the message says why."""

"""Files that are there whole or not at all."""

from alebrije.atomic import write_atomically

__all__ = ["write_atomically"]

"""What is on disk: readers and writers of public formats."""

from alebrije.data.arrays import ArrayFile, read_arrays, shown

__all__ = ["ArrayFile", "read_arrays", "shown"]

"""What is on disk: readers and writers of public formats."""

from alebrije.data.arrays import ArrayFile, read_arrays

__all__ = ["ArrayFile", "read_arrays"]

"""What is on disk: readers and writers of public formats, and the image cache."""

from alebrije.data.arrays import ArrayFile, read_arrays, shown
from alebrije.data.cache import Cache, CachedArray, open_cache, write_cache
from alebrije.data.grids import Grid, read_dsprites, read_mpi3d, read_shapes3d
from alebrije.data.multi_object import ObjectImages, read_clevr_with_masks, read_multi_dsprites
from alebrije.data.svib import read_svib, write_svib

__all__ = [
    "ArrayFile",
    "Cache",
    "CachedArray",
    "Grid",
    "ObjectImages",
    "open_cache",
    "read_arrays",
    "read_clevr_with_masks",
    "read_dsprites",
    "read_mpi3d",
    "read_multi_dsprites",
    "read_shapes3d",
    "read_svib",
    "shown",
    "write_cache",
    "write_svib",
]

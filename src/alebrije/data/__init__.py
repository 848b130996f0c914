"""Readers and writers of public formats, user datasets, and the image cache."""

from alebrije.data.array_files import ArrayFile, printable, read_arrays
from alebrije.data.cache import Cache, CachedArray, open_cache, write_cache
from alebrije.data.grids import FactorImages, read_dsprites, read_mpi3d, read_shapes3d
from alebrije.data.movi import VideoClips, read_movi
from alebrije.data.mpi3d_file import write_mpi3d
from alebrije.data.multi_object import ObjectImages, read_clevr_with_masks, read_multi_dsprites
from alebrije.data.svib import read_svib, write_svib

__all__ = [
    "ArrayFile",
    "Cache",
    "CachedArray",
    "FactorImages",
    "ObjectImages",
    "VideoClips",
    "open_cache",
    "printable",
    "read_arrays",
    "read_clevr_with_masks",
    "read_dsprites",
    "read_movi",
    "read_mpi3d",
    "read_multi_dsprites",
    "read_shapes3d",
    "read_svib",
    "write_cache",
    "write_mpi3d",
    "write_svib",
]

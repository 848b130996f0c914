"""The ray tracer as Triton kernels, imported only on a GPU.

Each file holds what the file of the same name beside this folder holds, in the same order and with the same names, for
one tile of pixels instead of lists of points. A program traces a tile of a scene, so every branch on an object is
uniform: an object whose bounding volume no pixel of the tile meets is skipped.
"""

"""What kernels read and write: tables with a row of numbers per scene and per object, and planes of pixels.

All kernels have the same arguments, so that Triton compiles one launcher for all of them:

    scenes    [B, SCENE]            tables
    objects   [B, N, OBJECT]
    assets    [A]                   int64, what materials and shapes are made of
    images    [B, 3, H, W] uint8    the frames
    masks     [B, H, W] uint8
    depths    [B, H, W]
    totals    [B, N] int32
    labels    [B, H, W] uint8       the object that the ray through the centre of each pixel hits, plus one
    pieces    [B, N + 1, 4, H, W]   the visible pieces of each object and, last, of the ground; see `find_pieces`
    notes     [B, N + 1, 4, H, W]   what rays that go on need to know of a surface
    radiance  [B, 3, H, W]
    least     the share of a pixel that an object must cover to be its mask, 0 if the mask is taken at the centre
    count     N
    size      H and W
    KINDS     the kinds of shapes, one bit each; DISPLACED: whether materials displace surfaces
    GRID      squared rays in the pixels on outlines
"""

from __future__ import annotations

from functools import partial

import triton
import triton.language as tl

_FRAMES = ("images", "masks", "depths", "totals")
_POINTERS = ("scenes", "objects", "assets", *_FRAMES, "labels", "pieces", "notes", "radiance")

# A kernel is compiled once, for all numbers of objects and all sizes of images.
kernel = partial(triton.jit, do_not_specialize=("count", "size"), do_not_specialize_on_alignment=_POINTERS)

# A row of the scenes: the camera and its axes, the ground, then four lights.
CAMERA: tl.constexpr = tl.constexpr(0)
RIGHT: tl.constexpr = tl.constexpr(3)
UP: tl.constexpr = tl.constexpr(6)
FORWARD: tl.constexpr = tl.constexpr(9)
ALBEDO: tl.constexpr = tl.constexpr(12)  # of the ground
FLOOR: tl.constexpr = tl.constexpr(15)  # material of the ground
LIGHTS: tl.constexpr = tl.constexpr(16)
# Of each light: the sun is the last, and its position is a direction.
LIGHT: tl.constexpr = tl.constexpr(24)  # numbers per light
AIM: tl.constexpr = tl.constexpr(3)
POWER: tl.constexpr = tl.constexpr(6)
TINT: tl.constexpr = tl.constexpr(7)
SPREAD: tl.constexpr = tl.constexpr(10)  # how much a soft shadow widens the shadow cone of a bounding sphere
SAMPLES: tl.constexpr = tl.constexpr(11)  # four points of the lamp
SCENE: tl.constexpr = tl.constexpr(112)  # numbers per scene

# A row of the objects.
CENTRE: tl.constexpr = tl.constexpr(0)
SIZE: tl.constexpr = tl.constexpr(3)
COSINE: tl.constexpr = tl.constexpr(4)
SINE: tl.constexpr = tl.constexpr(5)
REACH: tl.constexpr = tl.constexpr(6)
DISPLACEMENT: tl.constexpr = tl.constexpr(7)
OPACITY: tl.constexpr = tl.constexpr(8)
CONVEX: tl.constexpr = tl.constexpr(9)
KIND: tl.constexpr = tl.constexpr(10)
CIRCLE: tl.constexpr = tl.constexpr(11)  # column, row and squared radius of the bounding circle in the image
COLOUR: tl.constexpr = tl.constexpr(14)
MATERIAL: tl.constexpr = tl.constexpr(17)
MIDDLE: tl.constexpr = tl.constexpr(18)
NORMAL_STEP: tl.constexpr = tl.constexpr(19)
NUMBERS: tl.constexpr = tl.constexpr(20)  # the dimensions of the shape
SIDES: tl.constexpr = tl.constexpr(29)  # light on the sides: constant, cosine and sine term of each channel
WRAP: tl.constexpr = tl.constexpr(38)  # how a texture is wrapped around the shape
OBJECT: tl.constexpr = tl.constexpr(40)  # numbers per object

# Kinds of shapes, and the bit of each in the set of kinds that a kernel is compiled for.
CUBE: tl.constexpr = tl.constexpr(0)
CYLINDER: tl.constexpr = tl.constexpr(1)
SPHERE: tl.constexpr = tl.constexpr(2)
MESH: tl.constexpr = tl.constexpr(3)
CONE: tl.constexpr = tl.constexpr(4)
ICOSAHEDRON: tl.constexpr = tl.constexpr(5)
TORUS: tl.constexpr = tl.constexpr(6)
BLOCK: tl.constexpr = tl.constexpr(7)

# A tile of the image that one program traces: as many pixels as a warp has threads.
WIDE: tl.constexpr = tl.constexpr(8)
HIGH: tl.constexpr = tl.constexpr(4)

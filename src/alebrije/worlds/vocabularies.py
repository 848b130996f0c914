"""The vocabularies of the published worlds. Factors are in the order of a combination."""

from __future__ import annotations

import math

from alebrije.scenes import Factor, Vocabulary

SPRITES = Vocabulary(
    "sprites",
    (
        Factor(
            "color", ("green", "magenta", "blue", "orange"), ((0, 255, 0), (255, 0, 255), (0, 127, 255), (255, 127, 0))
        ),
        Factor("shape", ("circle", "triangle", "square", "star"), ("circle", "triangle", "square", "star_4")),
        Factor("size", ("tiny", "small", "medium", "large"), (0.125, 0.225, 0.325, 0.425)),
    ),
    background=Factor("background", ("black",)),
)

CLEVR = Vocabulary(
    "clevr",
    (
        Factor(
            "color",
            ("red", "green", "blue", "cyan", "magenta", "yellow"),
            ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.0, 1.0, 1.0), (1.0, 0.0, 1.0), (1.0, 1.0, 0.0)),
        ),
        Factor(
            "shape", ("cube", "sphere", "cylinder", "monkey"), ("SmoothCube_v2", "Sphere", "SmoothCylinder", "Suzanne")
        ),
        Factor("size", ("small", "medium", "large"), (1.0, 1.5, 2.0)),
        Factor("material", ("rubber", "metal"), ("Rubber", "MyMetal")),
    ),
)

# The eight surfaces, in the order of the paper's Table 4. The released files use the path of a material.
_POLIIGON = {
    "red bricks": "BricksFlemishRed001",
    "white bricks": "BricksPaintedWhite001",
    "copper chainmail": "ChainmailCopperRoundedThin001",
    "denim": "FabricDenim003",
    "fleece": "FabricFleece001",
    "spotty metal": "MetalSpottyDiscoloration001",
    "terracotta": "RoofTilesTerracotta004",
    "wood": "WoodFlooring061",
}
SURFACES = tuple(_POLIIGON)
_SURFACE_PATHS = tuple(f"data/materials/Poliigon{name}.blend" for name in _POLIIGON.values())

CLEVRTEX = Vocabulary(
    "clevrtex",
    (
        Factor(
            "shape",
            ("cone", "cube", "cylinder", "monkey", "icosahedron", "teapot", "sphere", "torus"),
            ("Cone", "Cube", "Cylinder", "Suzanne", "Icosahedron", "NewellTeapot", "Sphere", "Torus"),
        ),
        Factor("size", ("small", "medium", "large"), (1.0, 1.5, 2.0)),
        Factor("material", SURFACES, _SURFACE_PATHS),
    ),
    background=Factor("background", SURFACES, _SURFACE_PATHS),
)


def _fractions(*colors: tuple[int, int, int]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(channel / 255 for channel in color) for color in colors)


# The shapes that stand on a base, at CLEVR's sizes, so that ten fit into a scene.
MOVING_TEXTURED = Vocabulary(
    "moving-textured",
    (
        Factor("shape", CLEVRTEX["shape"].values, CLEVRTEX["shape"].codes),
        Factor("size", ("small", "large"), (0.5, 0.9)),
        CLEVRTEX["material"],
    ),
    background=CLEVRTEX.background,
)

# CLEVR's own colours and sizes, for scenes of many objects. Colours are linear light, as in CLEVR.
_MANY = (
    Factor(
        "color",
        ("gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow"),
        _fractions(
            (87, 87, 87),
            (173, 35, 35),
            (42, 75, 215),
            (29, 105, 20),
            (129, 74, 25),
            (129, 38, 192),
            (41, 208, 208),
            (255, 238, 51),
        ),
    ),
    Factor("shape", ("cube", "sphere", "cylinder"), ("SmoothCube_v2", "Sphere", "SmoothCylinder")),
    Factor("size", ("small", "large"), (0.35, 0.7)),
    Factor("material", ("rubber", "metal"), ("Rubber", "MyMetal")),
)
CLEVR_MANY = Vocabulary("clevr-many", _MANY)

# Half of the longest diagonal is 1.45 in MultiShapeNet.
FURNITURE = Vocabulary(
    "furniture",
    (
        _MANY[0],
        Factor("trim", ("plain", "light", "dark")),
        Factor("shape", ("chair", "table", "cabinet"), ("Chair", "Table", "Cabinet")),
        Factor("size", ("regular",), (1.45,)),
        Factor("material", ("rubber",), ("Rubber",)),
    ),
)
COAT = Vocabulary(
    "coat",
    _MANY,
    background=Factor(
        "background",
        ("white", "light blue", "tan", "plum", "sea green"),
        _fractions((255, 255, 255), (173, 216, 230), (210, 180, 140), (221, 160, 221), (143, 188, 143)),
    ),
)


def _spaced(first: float, last: float, count: int) -> tuple[float, ...]:
    return tuple(first + (last - first) * step / (count - 1) for step in range(count))


DSPRITES = Vocabulary(
    "dsprites",
    (
        Factor("color", ("white",), (1,)),
        Factor("shape", ("square", "ellipse", "heart"), (1, 2, 3)),
        Factor("scale", _spaced(0.5, 1.0, 6)),
        Factor("orientation", _spaced(0.0, 2 * math.pi, 40)),
        Factor("position x", _spaced(0.0, 1.0, 32)),
        Factor("position y", _spaced(0.0, 1.0, 32)),
    ),
    background=Factor("background", ("black",)),
)

_HUES = _spaced(0.0, 0.9, 10)
ROOMS = Vocabulary(
    "rooms",
    (
        Factor("floor hue", _HUES),
        Factor("wall hue", _HUES),
        Factor("object hue", _HUES),
        Factor("scale", _spaced(0.75, 1.25, 8)),
        Factor("shape", ("cube", "cylinder", "sphere", "capsule"), (0, 1, 2, 3)),
        Factor("orientation", _spaced(-30.0, 30.0, 15)),
    ),
    background=Factor("background", ("room",)),
)

ARM = Vocabulary(
    "arm",
    (
        Factor(
            "color",
            ("white", "green", "red", "blue", "brown", "olive"),
            ((240, 240, 240), (40, 170, 60), (215, 45, 40), (45, 85, 215), (135, 80, 45), (150, 150, 40)),
        ),
        Factor("shape", ("cone", "cube", "cylinder", "hexagonal", "pyramid", "sphere")),
        Factor("size", ("small", "large"), (0.17, 0.26)),
        Factor("camera height", ("top", "center", "bottom"), (42.0, 25.0, 8.0)),
        Factor("background", ("purple", "sea green", "salmon"), ((128, 60, 150), (46, 139, 110), (240, 128, 114))),
        Factor("horizontal", tuple(range(40)), _spaced(-58.0, 58.0, 40)),
        Factor("vertical", tuple(range(40)), _spaced(-60.0, 40.0, 40)),
    ),
    background=Factor("background", ("stage",)),
)

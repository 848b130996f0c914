"""Draw a picture of what each model of the zoo does, for its page in the documentation.

    python tools/zoo_pictures.py [NAME ...]

Run it in the root of the repository. It writes docs/zoo/NAME.jpg.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from alebrije import zoo
from alebrije.zoo.pictures import pictures

OUT = Path("docs/zoo")
SIDE = 64


def main() -> None:
    """Draw the pictures of the named models, or of all."""
    OUT.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or zoo.names():
        if rows := pictures(name):
            save(torch.stack([images for _, images in rows]), OUT / f"{name}.jpg")
            print(f"{OUT / f'{name}.jpg'}: {(OUT / f'{name}.jpg').stat().st_size / 1e3:.0f} kB")


def save(rows: Tensor, path: Path) -> None:
    """Rows of images [R, N, 3, H, W] in 0..1 as one picture."""
    count = rows.shape[:2]
    small = F.interpolate(rows.flatten(0, 1).float().clamp(0, 1), (SIDE, SIDE), mode="area").view(*count, 3, SIDE, SIDE)
    picture = F.pad(small, (1, 1, 1, 1), value=1.0).permute(0, 3, 1, 4, 2).flatten(2, 3).flatten(0, 1)
    Image.fromarray((picture.numpy() * 255).round().astype(np.uint8)).save(path, quality=85)


if __name__ == "__main__":
    main()

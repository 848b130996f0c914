"""Draw docs/worlds.jpg: every world, eight scenes each, masks below; `make readme` runs it."""

from __future__ import annotations

from pathlib import Path

import torch
from PIL import Image, ImageDraw, ImageFont

from alebrije import worlds

NAMES = ("sprites", "clevr", "clevrtex", "clevr10", "coat", "dsprites", "rooms")
SEEDS = {"clevr": 3, "clevrtex": 11}
COLUMNS, SIDE, GAP, LABEL = 8, 128, 6, 92
PALETTE = ((33, 48, 62), (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (204, 121, 167))
PALETTE += ((213, 94, 0), (0, 114, 178), (170, 170, 170), (120, 220, 170), (250, 190, 190))


def strip(name: str) -> Image.Image:
    """One world: its images over its masks."""
    world = worlds.get(name)
    frames = world.render(world.sample(COLUMNS, seed=SEEDS.get(name, 0)), size=world.size)
    colours = torch.tensor(PALETTE, dtype=torch.uint8)[frames.masks.long()].permute(0, 3, 1, 2)
    line = Image.new("RGB", (LABEL + COLUMNS * (SIDE + GAP), SIDE + SIDE // 2 + 2 * GAP), "white")
    draw = ImageDraw.Draw(line)
    draw.text((4, SIDE // 2 - 8), name, fill=(33, 48, 62), font=ImageFont.load_default(16))
    for column in range(COLUMNS):
        left = LABEL + column * (SIDE + GAP)
        for images, top, height in ((frames.images, 0, SIDE), (colours, SIDE + GAP // 2, SIDE // 2)):
            picture = Image.fromarray(images[column].permute(1, 2, 0).contiguous().numpy())
            line.paste(picture.resize((height, height), Image.Resampling.NEAREST), (left, top))
    return line


def main() -> None:
    """Write the picture beside this script."""
    strips = [strip(name) for name in NAMES]
    picture = Image.new("RGB", (strips[0].width, sum(line.height for line in strips)), "white")
    top = 0
    for line in strips:
        picture.paste(line, (0, top))
        top += line.height
    picture.save(Path(__file__).with_name("worlds.jpg"), quality=88, optimize=True)


if __name__ == "__main__":
    main()

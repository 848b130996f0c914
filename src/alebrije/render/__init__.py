"""Render scenes to images and masks, in plain torch on any device, and 3D worlds faster by compiled code."""

from alebrije.render.arm import arm_factors, render_arm
from alebrije.render.cameras import pixel_rays
from alebrije.render.dsprites import dsprites_factors, dsprites_images, render_dsprites
from alebrije.render.frames import Frames
from alebrije.render.fusing import fusing
from alebrije.render.rooms import render_rooms, rooms_factors, rooms_images
from alebrije.render.silhouettes import silhouettes, visible_masks, visible_pixels
from alebrije.render.solid import render_solid
from alebrije.render.sprites import render_sprites

__all__ = [
    "Frames",
    "arm_factors",
    "dsprites_factors",
    "dsprites_images",
    "fusing",
    "pixel_rays",
    "render_arm",
    "render_dsprites",
    "render_rooms",
    "render_solid",
    "render_sprites",
    "rooms_factors",
    "rooms_images",
    "silhouettes",
    "visible_masks",
    "visible_pixels",
]

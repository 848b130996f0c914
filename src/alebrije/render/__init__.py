"""What it looks like: scenes to images and masks, in plain torch on any device."""

from alebrije.render.frames import Frames

__all__ = ["Frames"]

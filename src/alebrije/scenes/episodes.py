"""Episodes: scenes before and after a rule."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from alebrije.scenes.scenes import Index, Scenes, normalise_index


@dataclass(frozen=True, eq=False)
class Episodes:
    """Pairs of a source and a target scene, with their images and masks if these were rendered or read."""

    source: Scenes
    target: Scenes
    source_images: Tensor | None = None  # [B, 3, H, W] uint8
    target_images: Tensor | None = None
    source_masks: Tensor | None = None  # [B, H, W] uint8: 0 is background, object k is k + 1
    target_masks: Tensor | None = None

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: Index) -> Episodes:
        rows = normalise_index(index, len(self))
        pictures = {
            name: None if (tensor := getattr(self, name)) is None else tensor[rows]
            for name in ("source_images", "target_images", "source_masks", "target_masks")
        }
        return replace(self, source=self.source[rows], target=self.target[rows], **pictures)

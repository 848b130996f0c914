"""Pictures of slots in the report: what each slot of a case shows, before and after clean-up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alebrije.arrays import Array, Bytes
from alebrije.instruments.analogy.slot_pictures import ROWS
from alebrije.report import sections
from alebrije.report.findings import Finding, Findings
from alebrije.report.parts import Gallery, Shot, Strip
from alebrije.report.sections import images_in, shot, titled
from alebrije.report.verdict import percent

_SIDE = 80  # of a picture in pixels
_GREY = 128  # of pixels that another slot wins
_LEGEND = (
    "One case, with its slots after matching, so a column is meant to hold one object; the last row shows D and is "
    "decoded from B - A + C. From left to right: the scene, "
    "its reconstruction from all slots, each slot in its mask, and each slot without its mask. Below a slot is the "
    "cosine to the most similar other slot of the scene, and the share of the image that its mask takes. ✕ marks slots "
    "that the clean-up replaced by the blank slot. Figures A10 to A12 and A15 of Xie et al. 2022."
)
_TITLES = ("A", "B", "C", "D", "B - A + C")


def slot_galleries(findings: Findings, scored: Sequence[Finding]) -> list[Gallery]:
    """The slots of a case of each model with slots on the occluded corpus, for each variant."""
    chosen = [finding for finding in scored if finding.get("corpus") == "occluded" and finding.get("variant")]
    cases = (
        (f"Slots of {titled(finding, 'train_set', 'variant')}", slot_strips(findings.samples(finding)))
        for finding in chosen
    )
    return sections.galleries("analogy-slots", _LEGEND, 3.6, cases)


def slot_strips(samples: dict[str, Array]) -> tuple[Strip, ...]:
    """A strip for each scene of the case and for b - a + c; none without complete samples."""
    images, masks = samples.get("slot_images"), samples.get("slot_masks")
    scenes = images_in(samples, "a", "b", "c", "d")
    numbers = [samples.get(name) for name in ("slot_cosines", "slot_masses", "slot_blanked")]
    if images is None or masks is None or scenes is None or not _fit(images, masks, numbers):
        return ()
    case = int(samples.get("slot_case", np.array(0)))
    if not 0 <= case < len(scenes[0]):
        return ()
    cosines, masses, blanked = numbers
    assert cosines is not None and masses is not None and blanked is not None  # noqa: PT018
    strips = []
    for row, title in enumerate(_TITLES):
        scene = "ABCD"[min(row, 3)]  # B - A + C should be D
        pictures = [shot(scene, scenes["ABCD".index(scene)][case], f"scene {scene}", most=_SIDE)]
        mixed = _mixed(images[row], masks[row])
        pictures.append(shot("all slots", mixed, f"{title} from all slots", most=_SIDE))
        marks = blanked[row] if row < len(blanked) else np.zeros(len(images[row]), bool)
        words = [f"{c:.2f}, {percent(float(m))}" for c, m in zip(cosines[row], masses[row], strict=True)]
        for slot, (label, mark) in enumerate(zip(words, marks, strict=True)):
            shown = _masked(images[row, slot], masks[row, slot])
            pictures.append(_slot(label, shown, f"{title}, slot {slot + 1} in its mask", bool(mark)))
        for slot, mark in enumerate(marks):
            pictures.append(_slot(f"slot {slot + 1}", images[row, slot], f"{title}, slot {slot + 1} alone", bool(mark)))
        strips.append(Strip(title, tuple(pictures)))
    return tuple(strips)


def _slot(label: str, image: Array, alt: str, blanked: bool) -> Shot:
    return shot(label, image, alt + (", blanked" if blanked else ""), "wrong" if blanked else "", _SIDE)


def _mixed(images: Array, masks: Array) -> Bytes:
    """The sum of images uint8 [K, 3, S, S] weighted by masks uint8 [K, S, S]."""
    mixed = (images.astype(np.float64) * masks[:, None] / 255).sum(0)
    shown: Bytes = mixed.clip(0, 255).round().astype(np.uint8)
    return shown


def _masked(image: Array, mask: Array) -> Bytes:
    """An image [3, S, S] in its mask [S, S], grey elsewhere."""
    share = mask / 255
    shown: Bytes = (image * share + _GREY * (1 - share)).round().astype(np.uint8)
    return shown


def _fit(images: Array, masks: Array, numbers: Sequence[Array | None]) -> bool:
    """Whether the arrays have the form that `slot_pictures.slot_arrays` gives them."""
    if images.ndim != 5 or images.dtype != np.uint8 or masks.dtype != np.uint8 or len(images) != len(ROWS):
        return False
    rows, slots, channels, *side = images.shape
    wanted = [(rows, slots), (rows, slots), (rows - 1, slots)]
    shapes = [None if one is None else one.shape for one in numbers]
    return channels == 3 and masks.shape == (rows, slots, *side) and shapes == wanted

"""COAT, slot matching and TRE against their releases."""

from __future__ import annotations

import math
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn, optim

from alebrije import metrics
from foreign.code import Foreign, Outcome, Row

RELEASE = "SRXie/OFR"
GROUP = 64
CASES = {"vectors": 256, "slots": 128}
KINDS = ("additive", "noisy", "random")


def scenes(kind: str, slots: int | None = None, size: int = 16, seed: int = 0) -> list[torch.Tensor]:
    """Codes a, b, c, d as vectors [T, D], or as slots [T, K, D] in random order; b - a + c = d holds, almost or not."""
    generator = torch.Generator().manual_seed(seed)
    cases = CASES["slots" if slots else "vectors"]
    shape = (cases, slots, size) if slots else (cases, size)
    a, b, c, noise = torch.randn(4, *shape, generator=generator, dtype=torch.float64)
    d = {"additive": b - a + c + 1e-3 * noise, "noisy": b - a + c + noise, "random": noise}[kind]
    if not slots:
        return [a, b, c, d]
    orders = torch.rand(4, cases, slots, generator=generator).argsort(2)
    return [x.gather(1, order[:, :, None].expand_as(x)) for x, order in zip((a, b, c, d), orders, strict=True)]


@cache
def release(foreign: Foreign) -> SimpleNamespace:
    """The functions of COAT's release."""
    names = [
        "batched_index_select",
        "compute_all_losses",
        "compute_cos_distance",
        "compute_cosine_loss",
        "compute_greedy_loss",
        "compute_loss",
        "compute_shuffle_cosine_loss",
        "compute_shuffle_greedy_loss",
        "compute_shuffle_loss",
        "summarize_losses",
    ]
    return foreign.functions(f"{RELEASE}/utils.py", names, torch=torch, math=math, Tensor=torch.Tensor)


def groups(codes: list[torch.Tensor]) -> list[torch.Tensor]:
    """The batches of the release: groups of 64 cases, and its A and B swapped."""
    a, b, c, d = (torch.split(x, GROUP) for x in codes)
    return [torch.cat(parts) for parts in zip(b, a, c, d, strict=True)]


def double(call: Any, *args: Any) -> Any:
    """Call with new tensors in float64, as our metrics compute."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return call(*args)
    finally:
        torch.set_default_dtype(before)


def vectors(foreign: Foreign, angle: bool) -> Outcome:
    """COAT of vectors."""
    code, pairs = release(foreign), []
    for kind in KINDS:
        codes = scenes(kind)
        losses: list[Any] = []
        expected: list[Any] = []
        for batch in groups(codes):
            if angle:
                code.compute_cosine_loss(batch, [], losses)
                code.compute_shuffle_cosine_loss(batch, [], expected)
            else:
                code.compute_loss(batch, losses)
                code.compute_shuffle_loss(batch, expected)
        ours = metrics.coat(*codes, {}, loss="acos" if angle else "squared-l2", chance="released").score
        pairs.append((ours, float(code.summarize_losses(losses, expected)[1])))
    return Outcome(pairs)


def slots(foreign: Foreign, angle: bool, chance: Any) -> Outcome:
    """COAT of slots."""
    code, pairs = release(foreign), []
    for kind in KINDS:
        codes = scenes(kind, slots=5)
        losses, expected = [], []
        for batch in groups(codes):
            found = double(code.compute_all_losses, batch)
            losses.append(found[2] if angle else found[0])
            shuffled = double(code.compute_shuffle_greedy_loss, found[3])
            expected.append(shuffled[2] if angle else shuffled[0])
        ours = metrics.coat(*codes, {}, loss="acos" if angle else "squared-l2", chance=chance).score
        pairs.append((ours, float(code.summarize_losses(losses, expected)[1])))
    return Outcome(pairs)


def matching(foreign: Foreign) -> Outcome:
    """The indices of all matched slots, and the cost of each case."""
    code, pairs = release(foreign), []
    for kind in KINDS:
        for count in (2, 5, 7):
            a, b, c, d = (scene[:32] for scene in scenes(kind, slots=count))
            cost, order = double(code.compute_greedy_loss, torch.cat([b, a, c, d]))
            theirs = torch.stack(order.split(len(a)), 1)[:, [1, 0, 2, 3]].flip(2)  # the first pick is their last
            ours = metrics.match_slots(a, b, c, d)
            pairs += [(ours.indices.numpy(), theirs.numpy()), (ours.cost.numpy(), cost.numpy())]
    return Outcome(pairs)


def alike_slots() -> torch.Tensor:
    """Slots [T, K, D], some with nearly the same direction, in chains too."""
    generator = torch.Generator().manual_seed(0)
    free = torch.randn(64, 7, 16, generator=generator, dtype=torch.float64)
    turned = free.roll(1, 1) + 0.3 * torch.randn(64, 7, 16, generator=generator, dtype=torch.float64)
    slots = torch.where(torch.rand(64, 7, 1, generator=generator) < 0.5, turned, free)
    degrees = torch.deg2rad(torch.tensor([0.0, 15, 30, 45, 60, 75, 90], dtype=torch.float64))
    slots[0, :, :2], slots[0, :, 2:] = torch.stack([degrees.cos(), degrees.sin()], 1), 0.0
    return slots


def duplicates(foreign: Foreign) -> Outcome:
    """Slots after duplicates are blanked."""
    slots = alike_slots()
    theirs = foreign.statements(
        f"{RELEASE}/models/slot_attention.py",
        "SlotAttentionModel",
        lambda text: text.startswith(
            (
                "slots_nodup = slots.clone()",
                "cos_dis_feature =",
                "duplicated",
                "blank_slots =",
                "slots_nodup[duplicated_index",
            )
        ),
        torch=torch,
        compute_cos_distance=release(foreign).compute_cos_distance,
        slots=slots,
        slot_size=slots.shape[2],
        dup_threshold=0.15,
    )["slots_nodup"]
    blanked = int((theirs != slots).any(2).sum())
    note = f"{blanked} of {slots.shape[0] * slots.shape[1]} slots are blanked there"
    return Outcome([(metrics.drop_duplicate_slots(slots).numpy(), theirs.numpy())], note)


def invisible(foreign: Foreign) -> Outcome:
    """Slots after those that win no pixel are blanked; some masks tie at every pixel."""
    slots = alike_slots()
    generator = torch.Generator().manual_seed(1)
    masks = torch.rand(64, 7, 8, 8, generator=generator, dtype=torch.float64)
    masks *= torch.rand(64, 7, 1, 1, generator=generator, dtype=torch.float64)
    masks[:8, 1] = masks[:8, 0]
    masks = masks / masks.sum(1, keepdim=True)
    blank = slots.flatten(0, 1).mean(0, keepdim=True)
    theirs = foreign.statements(
        f"{RELEASE}/models/slot_attention.py",
        "SlotAttentionModel",
        lambda text: text.startswith(("masks_nodup_mass =", "invisible_index =", "slots_nodup[invisible_index")),
        torch=torch,
        masks_nodup=masks,
        recons=masks,
        batch_size=len(masks),
        num_slots=masks.shape[1],
        slots_nodup=slots.clone(),
        blank_slots=blank,
    )["slots_nodup"]
    note = f"{int((theirs != slots).any(2).sum())} of {slots.shape[0] * slots.shape[1]} slots are blanked there"
    return Outcome([(metrics.drop_invisible_slots(slots, masks).numpy(), theirs.numpy())], note)


def tre(foreign: Foreign, rows: int = 90, steps: int = 30) -> Outcome:
    """The order of four codes, from the most to the least compositional."""
    flatten = foreign.functions("jacobandreas/tre/util.py", ["flatten"]).flatten
    names = ["L1Dist", "Objective", "evaluate"]
    code = foreign.functions("jacobandreas/tre/evals2.py", names, torch=torch, nn=nn, optim=optim, flatten=flatten)
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 4, (rows, 3))
    parts = np.concatenate([np.eye(4)[column] for column in factors.T], 1) @ rng.normal(size=(12, 6))
    noise = rng.normal(size=parts.shape) * parts.std(0)
    levels = {"additive": 0.0, "a third noise": 0.33, "two thirds noise": 0.67, "noise": 1.0}
    expressions = [tuple(f"{factor}:{value}" for factor, value in enumerate(row)) for row in factors]
    ours, theirs = [], []
    for level in levels.values():
        codes = (1 - level) * parts + level * noise
        codes = (codes - codes.mean(0)) / codes.std(0)
        errors = code.evaluate(
            list(codes * 0.3), expressions, lambda *embedded: sum(embedded), code.L1Dist(), quiet=True, steps=steps
        )
        theirs.append(float(np.mean(errors)))
        ours.append(metrics.tree_reconstruction_error(codes, factors).score)
    ranks = [np.argsort(np.argsort(values)) for values in (ours, theirs)]
    listed = "; ".join(f"{name} {a:.2f} and {b:.2f}" for name, a, b in zip(levels, ours, theirs, strict=True))
    return Outcome([(ranks[0], ranks[1])], f"ours and theirs: {listed}")


def rows() -> list[Row]:
    """All comparisons of metrics of analogy."""
    vector = f"3 x {CASES['vectors']} cases of vectors of 16 numbers"
    slot = f"3 x {CASES['slots']} cases of 5 slots of 16 numbers"
    other = "by Equation 1: here all four scenes are matched for each random d, there only d"
    return [
        Row(["coat"], RELEASE, vector, "", lambda f: vectors(f, False)),
        Row(["coat-acos"], RELEASE, vector, '`chance="released"`', lambda f: vectors(f, True)),
        Row(["coat"], RELEASE, slot, '`chance="released"`', lambda f: slots(f, False, "released")),
        Row(["coat-acos"], RELEASE, slot, '`chance="released"`', lambda f: slots(f, True, "released")),
        Row(["coat"], f'{RELEASE}, `chance="paper"`', slot, other, lambda f: slots(f, False, "paper"), True),
        Row(["coat-acos"], f'{RELEASE}, `chance="paper"`', slot, other, lambda f: slots(f, True, "paper"), True),
        Row(["coat-l2"], RELEASE, remark="the release squares distances; the paper's text does not"),
        Row(
            ["coat (`match_slots`)"],
            RELEASE,
            "3 x 32 cases each of 2, 5 and 7 slots of 16 numbers",
            "indices and costs",
            matching,
        ),
        Row(
            ["coat (`drop_duplicate_slots`)"],
            RELEASE,
            "64 images of 7 slots, half turned towards another slot; a chain of slots 15 degrees apart",
            "",
            duplicates,
        ),
        Row(
            ["coat (`drop_invisible_slots`)"],
            RELEASE,
            "the same slots with masks of 8 x 8 pixels; in 8 images two masks are equal",
            "",
            invisible,
        ),
        Row(
            ["tre"],
            "jacobandreas/tre (Andreas 2019)",
            "90 scenes of 3 factors, codes of 6 numbers with four shares of noise",
            "other composition: a sum there, on the fitted rows; a transformer here, on held-out rows. "
            "The order of the four codes is compared",
            tre,
            intended=True,
        ),
    ]

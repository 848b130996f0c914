"""A small model with its recipe and data, for tests of the training loop."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor, nn

from alebrije.models import Batch
from alebrije.models.learner import Losses
from alebrije.train import PreloadedSource, Recipe

ROOT = str(Path(__file__).parents[2])  # for scripts that import this module
RECIPE = Recipe(steps=12, batch=8, lr=1e-2, warmup=4, decay="cosine", clip=0.5, precision="float32")


class Small(nn.Module):
    """A linear autoencoder with dropout and a counter, so that all kinds of state matter."""

    def __init__(self, dropout: float = 0.3) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(48, 4), nn.Linear(4, 48)
        self.dropout = dropout
        self.register_buffer("count", torch.zeros(()))

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        images = batch["images"].flatten(1)
        code = nn.functional.dropout(self.down(images), self.dropout, self.training)
        self.count += len(images)
        error = (self.up(code) - images).square().mean()
        return {"loss": error * (1.0 + 0.01 * step), "error": error.detach()}


class NaNLoss(Small):
    """Has a NaN loss in its sixth step."""

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        losses = super().training_loss(batch, step)
        return {"loss": torch.where(step == 5.0, torch.full_like(step, torch.nan), losses["loss"])}


class NaNGradient(Small):
    """Has a finite loss and a NaN gradient in its fourth step."""

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        losses = super().training_loss(batch, step)
        losses["loss"].register_hook(lambda grad: torch.where(step == 3.0, torch.full_like(grad, torch.nan), grad))
        return losses


def small(seed: int = 0, dropout: float = 0.3, kind: type[Small] = Small) -> Small:
    torch.manual_seed(seed)
    return kind(dropout)


def source(seed: int = 0) -> PreloadedSource:
    images = torch.randint(0, 256, (20, 3, 4, 4), generator=torch.Generator().manual_seed(9), dtype=torch.uint8)
    return PreloadedSource({"images": images}, seed)


def same(first: nn.Module, second: nn.Module) -> bool:
    other = second.state_dict()
    return all(torch.equal(tensor, other[name]) for name, tensor in first.state_dict().items())


def history(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]

"""Images as mixtures: the likelihood of every pixel under K components with masks, and its gradients in closed form.

IODINE refines its slots with these gradients. The closed form needs no differentiation inside the training step, so the
step stays one plain graph and the refinement also works where gradients are off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Family = Literal["logistic", "gaussian"]


@dataclass(frozen=True)
class PixelMixture:
    """Components with one scale for all pixels; `per_channel` mixes each channel on its own, not whole pixels.

    >>> mixture = PixelMixture("gaussian", 0.1)
    >>> evaluated = mixture.evaluate(torch.rand(2, 3, 8, 8), torch.rand(2, 5, 3, 8, 8), torch.zeros(2, 5, 1, 8, 8))
    >>> evaluated.likelihood.shape, evaluated.masks.shape
    (torch.Size([2, 1, 8, 8]), torch.Size([2, 5, 1, 8, 8]))
    """

    family: Family
    scale: float
    per_channel: bool = False

    def evaluate(self, images: Tensor, means: Tensor, logits: Tensor) -> Evaluated:
        """Evaluate images [B, 3, H, W] under means [B, K, 3, H, W] and mask logits [B, K, 1, H, W], in float32."""
        distance = (images.float()[:, None] - means.float()) / self.scale
        densities = self.log_density(distance)
        if not self.per_channel:
            densities = densities.sum(2, keepdim=True)
        log_masks = F.log_softmax(logits.float(), 1)
        joint = log_masks + densities
        return Evaluated(distance, densities, log_masks, joint, torch.logsumexp(joint, 1))

    def log_density(self, distance: Tensor) -> Tensor:
        """Return the log density at a distance from the mean, given in scales."""
        if self.family == "gaussian":
            return -0.5 * distance.square() - math.log(self.scale * math.sqrt(2 * math.pi))
        return -distance - 2 * F.softplus(-distance) - math.log(self.scale)

    def slope(self, distance: Tensor) -> Tensor:
        """Return the derivative of the log density by the mean."""
        return (distance if self.family == "gaussian" else torch.tanh(distance / 2)) / self.scale

    def gradients(self, evaluated: Evaluated) -> tuple[Tensor, Tensor]:
        """Return the gradients of the summed negative log likelihood by means and logits."""
        shares = evaluated.responsibilities
        by_logits = (evaluated.masks - shares).sum(2, keepdim=True)
        return -shares * self.slope(evaluated.distance), by_logits


@dataclass(frozen=True)
class Evaluated:
    """What a mixture says about images. C is 3 if channels are mixed on their own, else 1."""

    distance: Tensor  # [B, K, 3, H, W], from the means, in scales
    densities: Tensor  # [B, K, C, H, W], log densities of the components without their masks
    log_masks: Tensor  # [B, K, 1, H, W]
    joint: Tensor  # [B, K, C, H, W], densities plus log masks
    likelihood: Tensor  # [B, C, H, W], the log likelihood

    @property
    def masks(self) -> Tensor:
        """The masks [B, K, 1, H, W], which sum to one over the components."""
        return self.log_masks.exp()

    @property
    def responsibilities(self) -> Tensor:
        """The posterior probability [B, K, C, H, W] of each component."""
        return (self.joint - self.likelihood[:, None]).exp()

    @property
    def nll(self) -> Tensor:
        """The negative log likelihood of each image in nats [B]."""
        return -self.likelihood.sum((1, 2, 3))

    def counterfactual(self) -> Tensor:
        """How much each component adds to the log likelihood [B, K, C, H, W]: without it, the other masks grow."""
        if self.joint.shape[1] == 1:
            return torch.zeros_like(self.joint)
        return self.likelihood[:, None] - (sums_of_others(self.joint) - sums_of_others(self.log_masks))


def sums_of_others(logs: Tensor) -> Tensor:
    """Return the log of the sum of the others' exponentials for each of the components [B, K, ...], two or more.

    Sums from both ends stay exact where one component outweighs all others, unlike the total without it.

    >>> sums_of_others(torch.tensor([[1.0, 8.0, 3.0]]).log()).exp().round()
    tensor([[11.,  4.,  9.]])
    """
    parts = logs.unbind(1)
    before, after = [parts[0]], [parts[-1]]
    for part in parts[1:-1]:
        before.append(torch.logaddexp(before[-1], part))
    for part in reversed(parts[1:-1]):
        after.append(torch.logaddexp(after[-1], part))
    inner = [torch.logaddexp(*pair) for pair in zip(before[:-1], reversed(after[:-1]), strict=True)]
    return torch.stack((after[-1], *inner, before[-1]), 1)

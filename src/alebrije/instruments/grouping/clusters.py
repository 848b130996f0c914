"""K-means of the tokens of each image, many images at once."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

VERSION = 1  # raised when the same tokens give other groups
_STARTS = 4  # the one with the smallest distances is kept
_ROUNDS = 20
_SEED = 0
_MOST = 512  # clusters; masks have at most 255 objects


def cluster_tokens(grid: Tensor, clusters: Tensor, size: tuple[int, int]) -> Tensor:
    """The cluster of each pixel [B, H, W]: k-means of the directions of the tokens [B, D, h, w].

    Tokens are divided by their lengths, so their distance is that of the cosine. Each image has its own number of
    clusters [B]. The masks of the clusters are scaled to `size` by bilinear interpolation, and the strongest wins.

    >>> grid = torch.eye(2)[:, [[0, 0, 1, 1]] * 4][None]
    >>> cluster_tokens(grid, torch.tensor([2]), (4, 4))[0, 0].unique(return_counts=True)[1].tolist()
    [2, 2]
    """
    points = F.normalize(grid.float().flatten(2).transpose(1, 2), dim=2)  # [B, N, D]
    return label_maps(kmeans(points, clusters, on_sphere=True), (grid.shape[2], grid.shape[3]), size)


def label_maps(labels: Tensor, grid: tuple[int, int], size: tuple[int, int]) -> Tensor:
    """The labels [B, h * w] of a grid, scaled to label maps [B, H, W]."""
    masks = F.one_hot(labels).float().transpose(1, 2).reshape(len(labels), -1, *grid)  # [B, K, h, w]
    if grid != size:
        masks = F.interpolate(masks, size, mode="bilinear")
    return masks.argmax(1)


def kmeans(points: Tensor, clusters: Tensor, *, on_sphere: bool = False) -> Tensor:
    """The cluster [B, N] of each point [B, N, D]: the best of four starts by k-means++ with fixed random numbers.

    `clusters` [B] may differ between sets of points. The result for a set does not depend on the other sets. With
    `on_sphere`, centres have length 1, as the points should.
    """
    most = int(clusters.max())
    random = torch.rand(_STARTS, _MOST, generator=torch.Generator().manual_seed(_SEED))[:, :most].to(points.device)
    used = torch.arange(most, device=points.device) < clusters.to(points.device)[:, None]  # [B, K]
    best = [_one_start(points, used, numbers, on_sphere) for numbers in random]
    labels, losses = (torch.stack(each) for each in zip(*best, strict=True))  # [S, B, N] and [S, B]
    # starts that find the same clusters in another order differ by rounding only: the first of them wins
    close = losses <= losses.amin(0) * (1 + 1e-5) + 1e-9
    first = close.int().argmax(0)
    return labels[first, torch.arange(len(points), device=points.device)]


def _one_start(points: Tensor, used: Tensor, random: Tensor, on_sphere: bool) -> tuple[Tensor, Tensor]:
    """The labels [B, N] and the sum of squared distances [B] from one start."""
    centres = _first_centres(points, random)
    labels = _nearest(points, centres, used)[0]
    for _ in range(_ROUNDS):
        members = F.one_hot(labels, used.shape[1]).to(points.dtype)  # [B, N, K]
        counts = members.sum(1)[..., None]
        means = members.transpose(1, 2) @ points / counts.clamp_min(1)
        if on_sphere:
            means = F.normalize(means, dim=2)
        centres = torch.where(counts > 0, means, centres)
        before, (labels, _) = labels, _nearest(points, centres, used)
        if bool((labels == before).all()):
            break
    return labels, _nearest(points, centres, used)[1].sum(1)


def _first_centres(points: Tensor, random: Tensor) -> Tensor:
    """K-means++ (Arthur and Vassilvitskii 2007): points drawn by their squared distance to the nearest centre."""
    weights = torch.ones_like(points[..., 0])  # [B, N]
    centres: list[Tensor] = []
    for number in random:
        total = weights.double().cumsum(1)
        chosen = torch.searchsorted(total, (number.double() * total[:, -1])[:, None]).clamp_max(points.shape[1] - 1)
        centre = points.gather(1, chosen[..., None].expand(-1, -1, points.shape[2]))  # [B, 1, D]
        distance = (points - centre).square().sum(2)
        weights = distance if not centres else torch.minimum(weights, distance)
        centres.append(centre)
    return torch.cat(centres, 1)


def _nearest(points: Tensor, centres: Tensor, used: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest used centre [B, N] of each point, and its squared distance."""
    distances = torch.cdist(points, centres).square().masked_fill(~used[:, None], torch.inf)
    return distances.argmin(2), distances.amin(2)

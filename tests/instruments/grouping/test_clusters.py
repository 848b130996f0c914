"""K-means of many images at once: known clusters, invariances, and agreement with scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from torch import Tensor
from torch.nn import functional as F

from alebrije.instruments.grouping.clusters import cluster_tokens, kmeans
from alebrije.metrics import adjusted_rand_index


def blobs(images: int = 3, clusters: int = 4, spread: float = 0.02) -> tuple[Tensor, Tensor]:
    """Points around centres that are far apart, and their true clusters."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(images, clusters, 8, generator=generator)
    labels = torch.arange(40).remainder(clusters).expand(images, -1)
    points = centres.gather(1, labels[..., None].expand(-1, -1, 8))
    return points + spread * torch.randn(points.shape, generator=generator), labels


def same_partition(labels: Tensor, others: Tensor) -> bool:
    return bool((adjusted_rand_index(labels[:, None], others[:, None]) == 1).all())


def test_separate_clusters_are_found() -> None:
    points, true = blobs()
    assert same_partition(true, kmeans(points, torch.full((3,), 4)))


def test_an_image_has_the_same_clusters_whatever_is_beside_it() -> None:
    points, _ = blobs(spread=1.0)
    numbers = torch.tensor([2, 5, 3])
    together = kmeans(points, numbers)
    for at in range(3):
        assert torch.equal(together[at], kmeans(points[at : at + 1], numbers[at : at + 1])[0])
        assert int(together[at].max()) < int(numbers[at])
    assert torch.equal(together, kmeans(points, numbers))


def test_the_order_and_scale_of_features_do_not_matter() -> None:
    points, _ = blobs(spread=0.3)
    numbers = torch.full((3,), 4)
    grid = points.transpose(1, 2).reshape(3, 8, 5, 8)
    lengths = 0.5 + torch.rand(3, 1, 5, 8, generator=torch.Generator().manual_seed(1))
    expected = cluster_tokens(grid, numbers, (5, 8))
    assert torch.equal(expected, cluster_tokens(grid * lengths, numbers, (5, 8)))  # cosine: lengths do not count
    assert torch.equal(expected, cluster_tokens(grid[:, torch.randperm(8)], numbers, (5, 8)))


def test_losses_are_those_of_scikit_learn() -> None:
    """On noise, where there is no true answer, the sums of squared distances are as small with as many starts."""
    points = torch.rand(20, 60, 5, generator=torch.Generator().manual_seed(2))
    labels = kmeans(points, torch.full((20,), 6))
    ratios = []
    for own, found in zip(points.numpy(), labels.numpy(), strict=True):
        loss = sum(float(((own[found == k] - own[found == k].mean(0)) ** 2).sum()) for k in np.unique(found))
        ratios.append(loss / KMeans(6, n_init=4, random_state=0).fit(own).inertia_)
    assert 0.97 < float(np.mean(ratios)) < 1.03


@pytest.mark.parametrize("clusters", [1, 30])
def test_one_cluster_and_more_clusters_than_tokens(clusters: int) -> None:
    grid = torch.rand(2, 4, 4, 4, generator=torch.Generator().manual_seed(3))
    groups = cluster_tokens(grid, torch.full((2,), clusters), (8, 8))
    assert groups.shape == (2, 8, 8)
    assert all(len(one.unique()) == min(clusters, 16) for one in groups)


def test_masks_are_scaled_to_the_image() -> None:
    halves = torch.zeros(1, 2, 4, 4)
    halves[:, 0, :, :2], halves[:, 1, :, 2:] = 1, 1
    groups = cluster_tokens(halves, torch.tensor([2]), (64, 64))[0]
    assert groups[:, :32].unique().numel() == groups[:, 32:].unique().numel() == 1
    assert groups[0, 0] != groups[0, -1]
    equal = cluster_tokens(torch.ones(1, 2, 4, 4), torch.tensor([3]), (8, 8))
    assert equal.unique().numel() == 1
    assert torch.equal(F.one_hot(equal)[0].sum(-1), torch.ones(8, 8, dtype=torch.long))

"""Lanczos: weights that sum to one, and uniform colours that stay."""

import numpy as np
import torch

from alebrije.render.lanczos import lanczos_weights, shrink_spans


def test_shrinking_a_uniform_canvas_keeps_its_colour():
    spans = torch.full((1, 1, 400), 400, dtype=torch.int32)
    image = shrink_spans(torch.zeros_like(spans), spans, torch.tensor([[[255.0, 127.0, 1.0]]]), 40)
    assert torch.equal(image, torch.tensor([255, 127, 1], dtype=torch.uint8).view(1, 3, 1, 1).expand(1, 3, 40, 40))


def test_weights_of_a_pixel_sum_to_one():
    assert np.allclose(lanczos_weights(9).sum(axis=1), 1, atol=1e-5)

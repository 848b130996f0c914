"""A batch of images and predictions, for tests of the image metrics."""

import numpy as np
import torch

RNG = np.random.default_rng(0)
TARGET = RNG.random((5, 3, 6, 7))
PREDICTED = TARGET + 0.2 * RNG.standard_normal(TARGET.shape)  # overshoots 0..1, as networks do
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]

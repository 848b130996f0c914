"""What learns: one file per family, with its losses beside it.

>>> from alebrije import models
>>> encoder = models.build("beta-vae", channels=1).eval()
>>> import torch
>>> encoder(torch.rand(2, 3, 64, 64)).vector.shape
torch.Size([2, 10])
"""

from alebrije.models.catalog import ModelRecord, build, catalog, get
from alebrije.models.learner import Batch, Imagines, Learner, Losses

__all__ = ["Batch", "Imagines", "Learner", "Losses", "ModelRecord", "build", "catalog", "get"]

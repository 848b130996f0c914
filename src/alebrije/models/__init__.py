"""The models: one file per family, with its losses.

The fingerprint of a trained model includes the names of its modules, classes and attributes, and cell keys include the
fingerprint. Renaming them makes stored results of checkpoints unreachable.

>>> from alebrije import models
>>> encoder = models.build("beta-vae", channels=1).eval()
>>> import torch
>>> encoder(torch.rand(2, 3, 64, 64)).vector.shape
torch.Size([2, 10])
"""

from alebrije.models.catalog import ModelRecord, build, catalog, get
from alebrije.models.learner import Batch, Learner, Losses

__all__ = ["Batch", "Learner", "Losses", "ModelRecord", "build", "catalog", "get"]

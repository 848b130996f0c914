"""Load and check user models: torch modules, functions, timm, Hugging Face, runs trained here, files of embeddings.

>>> from alebrije import adapters
>>> import torch
>>> network = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU())
>>> encoder = adapters.load(network, size=32, mean=0.5, std=0.5)
>>> encoder(torch.rand(4, 3, 64, 64)).vector.shape
torch.Size([4, 8])
>>> report = adapters.check(network, size=32)
>>> report.passed, report["output"].sentence
(True, 'It returns the mean over the pixels of a feature map [B, 8, 30, 30].')
"""

from alebrije.adapters.check import CheckItem, CheckReport, check, precheck
from alebrije.adapters.embeddings import Embeddings, read_embeddings
from alebrije.adapters.encoder import Encoder
from alebrije.adapters.preprocessing import Preprocessing
from alebrije.adapters.specs import FORMS, load

__all__ = [
    "FORMS",
    "CheckItem",
    "CheckReport",
    "Embeddings",
    "Encoder",
    "Preprocessing",
    "check",
    "load",
    "precheck",
    "read_embeddings",
]

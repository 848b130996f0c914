"""How strangers come in: torch modules, timm, Hugging Face, runs trained here and files of embeddings.

>>> from alebrije import adapters
>>> import torch
>>> network = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU())
>>> encoder = adapters.load(network, size=32, mean=0.5, std=0.5)
>>> encoder(torch.rand(4, 3, 64, 64)).vector.shape, encoder.reading
(torch.Size([4, 8]), 'the mean over the places of a feature map [B, 8, 30, 30]')
>>> adapters.check(network, size=32).passed
True
"""

from alebrije.adapters.adapted import Adapted
from alebrije.adapters.checking import CheckReport, Finding, check, look_before
from alebrije.adapters.embeddings import Embeddings, read_embeddings
from alebrije.adapters.preprocessing import Preprocessing
from alebrije.adapters.specs import FORMS, load

__all__ = [
    "FORMS",
    "Adapted",
    "CheckReport",
    "Embeddings",
    "Finding",
    "Preprocessing",
    "check",
    "load",
    "look_before",
    "read_embeddings",
]

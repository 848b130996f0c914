"""What a user asks of a study."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from alebrije import adapters
from alebrije.errors import InputError
from alebrije.models import ModelRecord
from alebrije.models import get as get_model
from alebrije.models.catalog import catalog
from alebrije.studies.model import LoadedModel, Model
from alebrije.studies.references import REFERENCES, reference, with_pixels
from alebrije.suggest import did_you_mean

SizeName = Literal["tiny", "small", "paper"]
SIZES: tuple[SizeName, ...] = ("tiny", "small", "paper")


@dataclass(frozen=True)
class Request:
    """What a user asks of a study. The study and its size decide whatever is left empty.

    `models` are names of references, names of models that the study trains (`alebrije models`), or specs. `loaded` are
    models that exist already. `metrics` are names of values; only these are computed. `rules` and `alphas` are for
    instruments with tasks, `betas` for those that sweep this weight of a beta-TCVAE.
    """

    size: SizeName = "small"
    models: tuple[str, ...] = ()
    loaded: tuple[Model, ...] = ()
    metrics: tuple[str, ...] = ()
    worlds: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    alphas: tuple[float, ...] = ()
    betas: tuple[float, ...] = ()
    seeds: int | None = None  # how often each model is trained, with seeds from 0
    device: str = "cpu"
    only_loaded: bool = False  # examine `loaded` and nothing else
    yardsticks: bool = False  # `loaded` are yardsticks of models that another request examines

    def wants(self, metric: str) -> bool:
        """Whether a value is to be computed."""
        return not self.metrics or metric.lower() in {name.lower() for name in self.metrics}

    def model_names(self, default: Iterable[str]) -> tuple[str, ...]:
        """The names of the references and models to examine besides `loaded`."""
        return () if self.only_loaded else self.models or tuple(default)

    def loaded_models(self, pixels: int) -> tuple[Model, ...]:
        """`loaded`, where the reference `pixels` sees images of `pixels` pixels a side unless it has its own size."""
        return tuple(with_pixels(model, pixels) for model in self.loaded)

    def select_models(
        self, default: Iterable[str], pixels: int, train: Callable[[str], Iterable[Model]]
    ) -> Iterator[Model]:
        """References, models from specs, models that `train` returns for a name of the catalog, then `loaded`."""
        for name in self.model_names(default):
            if name in REFERENCES:
                yield reference(name, pixels)
            elif ":" in name:
                yield self.load(name)
            else:
                yield from train(name)
        yield from self.loaded_models(pixels)

    def load(self, spec: str) -> Model:
        """The model of a spec, on the device of the request."""
        return LoadedModel(adapters.load(spec, device=self.device))

    def training_seeds(self, default: int) -> range:
        """The seeds of the trainings of each model."""
        return range(default if self.seeds is None else self.seeds)

    def check_models(self) -> None:
        """Raise an InputError for a name that is neither a reference, nor in the catalog, nor a spec."""
        known = [*REFERENCES, *catalog()]
        for name in self.models:
            if ":" not in name and name not in known:
                raise InputError(
                    f"there is no model {name!r}{did_you_mean(name, known)} (a spec is one of {adapters.FORMS})"
                )


def learns_from_images(name: str, instrument: str, labelled: bool = False) -> ModelRecord:
    """The record of a model that learns from images; an InputError for others. `labelled` accepts labelled images."""
    record = get_model(name)
    if record.learns_from != "images" and not (labelled and record.learns_from == "labelled images"):
        raise InputError(
            f"{record.title} learns from {record.learns_from}; {instrument} examines models that learn from images"
        )
    return record

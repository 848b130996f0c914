"""Plans: everything that decides what a run learns, in one record that is written beside it."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import torch
from torch import nn
from torch._subclasses import FakeTensorMode  # torch has no public name for it

from alebrije import __version__
from alebrije.atomic import disk_trouble_named, is_leftover, write_atomically
from alebrije.errors import InputError
from alebrije.models import Batch, ModelRecord, build, get
from alebrije.models.catalog import suggestion
from alebrije.seeding import seeded
from alebrije.train.checkpoints import checkpoints
from alebrije.train.crew import Crew, processes
from alebrije.train.presets import ALL, Preset, preset
from alebrije.train.recipe import Recipe
from alebrije.train.sources import (
    AllImages,
    AllImagesWithout,
    Drawing,
    Held,
    Images,
    ImagesWithout,
    Part,
    Source,
    Stream,
    TaskEpisodes,
    TaskSources,
    hold,
    known_factors,
    known_floats,
    left_over,
)
from alebrije.worlds import Task, World, task
from alebrije.worlds import get as get_world

FILE = "run.json"
SEEDS = 10**15  # torch takes 64 bits, and a seed is multiplied before it gets there
_RECIPE = get_type_hints(Recipe)
_USUAL = {each.name: each.default for each in fields(Recipe) if each.default is not MISSING}
_KINDS = {"factors": torch.int64}  # of what a batch holds, where it is not a float
_REHEARSED: set[str] = set()  # steps that this process has tried


@dataclass(frozen=True)
class Plan:
    """A model with its settings, a recipe, and where the data come from."""

    model: str
    settings: dict[str, Any]
    recipe: Recipe
    world: str
    rule: str | None  # None: images of the world with all its combinations
    alpha: float | None
    size: int
    images: int  # held on the device; 0: new ones are drawn as long as it trains
    seed: int
    preset: str
    without: tuple[tuple[str, int], ...] = ()  # no image of training shows all of these values of factors at once

    @property
    def record(self) -> ModelRecord:
        """What is known about the model."""
        return get(self.model)

    @property
    def reads_scenes(self) -> bool:
        """Whether the model is told the scene instead of shown an image, as SVIB's Oracle is: it has no codes."""
        return self.model == "oracle"

    @property
    def predicts(self) -> bool:
        """Whether the model learns from episodes; others learn from images, of a world or of a task's sources."""
        return self.record.learns_from == "episodes"

    def place(self) -> World | Task:
        """The world or task."""
        if self.rule is None:
            return get_world(self.world)
        return task(self.world, self.rule, 0.6 if self.alpha is None else self.alpha)

    def new_model(self) -> nn.Module:
        """The model as it is before the first step: a matter of the seed alone."""
        with seeded(self.seed):
            return build(self.model, **self.settings)

    def drawing(self, part: Part = "train") -> Drawing:
        """What is drawn for training, for validation, or for the test of a task."""
        place = self.place()
        if isinstance(place, Task):
            kind_of_task = TaskEpisodes if self.predicts else TaskSources
            return kind_of_task(place, self.size, self.seed, part)
        if self.without:
            kind = AllImagesWithout if part == "train" and self.images == self.whole else ImagesWithout
            return kind(place, self.size, self.seed, part != "train", self.without)
        if part == "train" and self.images == place.whole:
            return AllImages(place, self.size, self.seed)
        return Images(place, self.size, self.seed, held_out=part != "train")

    def source(
        self, device: torch.device, workers: int = 1, progress: Callable[[int, int], object] | None = None
    ) -> Source:
        """The batches of training."""
        if not self.images:
            return Stream(self.drawing(), device)
        return Held(hold(self.drawing(), self.images, device, workers, progress), self.seed)

    @property
    def whole(self) -> int | None:
        """How many different images training may show; None where there is no end."""
        place = self.place()
        if not isinstance(place, World) or place.whole is None:
            return None
        return len(left_over(place, self.without)) if self.without else place.whole

    def leaving_out(self, values: Mapping[str, int]) -> Plan:
        """The same plan, but no image of training shows all of `values` at once; for dsprites and rooms.

        >>> made = plan("beta-vae", preset_name="paper", world="rooms").leaving_out({"shape": 0, "scale": 7})
        >>> made.images, made.whole, made.without
        (465000, 465000, (('scale', 7), ('shape', 0)))
        """
        place = self.place()
        if self.without or not isinstance(place, World) or place.whole is None:
            raise InputError("combinations are left out of plans for dsprites or rooms, once")
        for name, value in values.items():
            names, counts = place.vocabulary.names, place.vocabulary.counts
            if name not in names:
                raise InputError(f"{self.world} has no factor {name!r}{suggestion(name, list(names))}")
            if not 0 <= value < counts[names.index(name)]:
                raise InputError(f"{name} has values 0 to {counts[names.index(name)] - 1} in {self.world}, not {value}")
        if not values:
            raise InputError("a combination to leave out has at least one value")
        made = replace(self, without=tuple(sorted(values.items())))
        left = made.whole or 0
        sized = {"dataset_size": left} if self.settings.get("dataset_size") == place.whole else {}
        held = left if self.images == place.whole else self.images
        return replace(made, images=held, settings=self.settings | sized)

    def rehearse(self) -> None:
        """Raise an InputError if the model cannot take a step of this plan; nothing is computed, and no step twice."""
        step = repr((self.model, self.settings, self.recipe, self.size, self.world, self.rule, processes()))
        if step in _REHEARSED:
            return
        crew, place = Crew(torch.device("cpu"), size=processes()), self.place()
        share = self.recipe.batch // (crew.size * self.recipe.accumulate)
        names = ("source", "target") if self.predicts else ("images",)
        known = _known(place) if self.predicts and isinstance(place, Task) else {}
        shapes = dict.fromkeys(names, (share, 3, self.size, self.size))
        shapes |= {name: (share, *each.shape[1:]) for name, each in known.items()}
        with FakeTensorMode(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what matters ends in an error
            try:
                batch = {name: torch.zeros(shape, dtype=_KINDS.get(name)) for name, shape in shapes.items()}
                model = build(self.model, **self.settings)
                crew.see_that_it_can_share(model, self.recipe.batch, self.recipe.accumulate)
                self.recipe.optimiser_of(model)
                model.training_loss(batch, torch.zeros(()))  # type: ignore[operator]
            except InputError:
                raise
            except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:
                fault = str(error).partition("\n")[0]
                raise InputError(f"{self.record.title} cannot learn with these settings: {fault}") from error
        _REHEARSED.add(step)

    def to_json(self) -> dict[str, Any]:
        """As it is written down."""
        stored = {"alebrije": __version__, **asdict(self)}
        stored["without"] = dict(self.without)
        if not self.without:  # as it was before there was such a thing
            del stored["without"]
        return stored

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Plan:
        """As it was written down."""
        values = {each.name: stored[each.name] for each in fields(cls) if each.name != "without"}
        values["without"] = tuple(sorted(stored.get("without", {}).items()))
        recipe = dict(values.pop("recipe"))
        return cls(**values, recipe=Recipe(**_with_pairs(recipe)))

    def settle(self, folder: Path) -> None:
        """Write the plan into the folder of its run, or see that the run there is of this very plan."""
        path = folder / FILE
        if not path.exists():
            # another process of a crew may be writing the same plan right now
            others = [each for each in folder.iterdir() if not is_leftover(each)] if folder.is_dir() else []
            if others and not path.exists():
                raise InputError(f"{folder} holds other things than a run; choose a folder that is new or empty")
            with disk_trouble_named(folder):
                folder.mkdir(parents=True, exist_ok=True)
                write_atomically(path, json.dumps(self.to_json(), indent=2) + "\n")
            return
        mine, theirs = self._flat(json.loads(json.dumps(self.to_json()))), self._flat(_stored(path))
        for key in [*theirs, *(key for key in mine if key not in theirs)]:
            if theirs.get(key) != mine.get(key):
                if not checkpoints(folder) and read_plan(folder):  # nothing was learned by the other
                    write_atomically(path, json.dumps(self.to_json(), indent=2) + "\n")
                    return
                raise InputError(
                    f"{folder} holds a run with {key[1]} {theirs.get(key)!r}, not {mine.get(key)!r}; "
                    "the same command continues it, another folder begins a new one"
                )

    def _flat(self, stored: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
        """A plan without levels, for telling what differs; what it does not know has its default."""
        levels = {name: value for name, value in stored.items() if name in ("settings", "recipe")}
        flat = {("", name): value for name, value in stored.items() if name not in ("alebrije", *levels)}
        flat |= {("settings", name): value for name, value in self.record.defaults().items()}
        flat |= {("recipe", name): value for name, value in json.loads(json.dumps(_USUAL)).items()}
        for level, values in levels.items():
            inside = values if isinstance(values, dict) else {level: values}
            flat |= {(level, name): value for name, value in inside.items()}
        return flat


def read_plan(folder: Path) -> Plan:
    """The plan of the run in a folder."""
    stored = _stored(folder / FILE)
    try:
        return Plan.from_json(stored)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder / FILE} is no plan that this version can read: {error}") from None


def plan(
    model: str,
    *,
    preset_name: str = "small",
    world: str | None = None,
    rule: str | None = None,
    alpha: float | None = None,
    images: int | None = None,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    rehearse: bool = True,
) -> Plan:
    """A plan from a preset and what is to differ from it; all that cannot work is refused here.

    `settings` are of the model, of the recipe, or `size`; values may be text, as typed on a command line. With a rule,
    a model that learns from images is shown the sources of training episodes, so no combination that `alpha` holds out.
    Unless `rehearse` is false a step is tried in which nothing is computed: that takes up to a second.

    >>> made = plan("i2i-vit", preset_name="small", settings={"steps": "20000"})
    >>> made.recipe.steps, made.recipe.batch, made.world, made.rule, made.size
    (20000, 32, 'sprites', 'S-A', 128)
    >>> type(plan("slot-attention", preset_name="tiny", rule="S-A", alpha=0.2).drawing()).__name__
    'TaskSources'
    """
    record, chosen = get(model), preset(model, preset_name, world)
    where, _, usual_rule = chosen.where[0].partition("/")
    name = world or where
    law = rule or usual_rule or None
    changes = dict(settings or {})
    size = _parsed("size", changes.pop("size", chosen.size), int)
    if size < 1:
        raise InputError(f"size must be at least 1, not {size}")
    known = record.defaults()
    of_model = dict(chosen.model)
    of_recipe: dict[str, Any] = {"batch": chosen.batches.get(name, chosen.recipe.batch)}
    for key, value in changes.items():
        name_in_recipe = key.removeprefix("recipe.")  # for a name that model and recipe share, such as momentum
        if key in known:
            of_model[key] = _parsed(key, value, record.kinds()[key])
        elif name_in_recipe in _RECIPE:
            of_recipe[name_in_recipe] = _parsed(key, value, _RECIPE[name_in_recipe])
        else:
            every = [*known, *_RECIPE, "size"]
            raise InputError(f"{record.title} and its recipe have no setting {key!r}{suggestion(key, every)}")
    made = Plan(
        model=record.name,
        settings=of_model,
        recipe=replace(chosen.recipe, **of_recipe),
        world=name,
        rule=law,
        alpha=None,
        size=size,
        images=_held(images, chosen, get_world(name)),
        seed=_seed(seed),
        preset=preset_name,
    )
    if law is not None:
        made = replace(made, alpha=0.6 if alpha is None else alpha)
    elif alpha is not None:
        raise InputError(f"{record.title} learns from a world here, so there is no alpha to choose; tasks have one")
    made = replace(made, settings=known | _fitted(made, known) | of_model)
    if rehearse:
        made.rehearse()
    return made


def _fitted(made: Plan, known: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that follow from the data."""
    place = made.place()
    fitted: dict[str, Any] = {"size": made.size}
    if "architecture" in known and made.world == "dsprites":
        fitted["channels"] = 1
    if not made.predicts:
        fitted["dataset_size"] = made.images or made.whole or made.recipe.steps * made.recipe.batch
    elif isinstance(place, Task):
        fitted |= {name: each.shape[-1] for name, each in _known(place).items()}
        vocabulary = place.world.vocabulary
        most, values = max(*vocabulary.counts, len(vocabulary.background)), made.settings.get("values", math.inf)
        if values < most:
            raise InputError(f"factors of {made.world} have up to {most} values, so values={values} is too few")
    return {name: value for name, value in fitted.items() if name in known}


def _known(place: Task) -> Batch:
    """What is known about the source of an episode: [1, N, F] and [1, N, P]."""
    scenes = place.train(1).source
    return {"factors": known_factors(scenes), "floats": known_floats(scenes)}


def _held(images: int | None, chosen: Preset, world: World) -> int:
    """How many images to hold: all of a grid where the preset says so."""
    if images is None:
        return (world.whole or 0) if chosen.images == ALL else chosen.images
    count: int = _parsed("images", images, int)
    if count < 0:
        raise InputError(f"images must be at least 0, not {count}")
    return count


def _seed(seed: int) -> int:
    number: int = _parsed("seed", seed, int)
    if not 0 <= number < SEEDS:
        raise InputError(f"seed must be at least 0 and less than {SEEDS:,}, not {number}")
    return number


def _parsed(name: str, value: Any, kind: Any) -> Any:
    """A setting as the kind of thing that its annotation says; it may have been typed on a command line."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    for one in kinds:
        try:
            return _as(one, value)
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
    wanted = [word for one in kinds if (word := _in_words(one))]
    raise InputError(f"{name} must be {' or '.join(wanted)}, not {value!r}")


def _as(kind: Any, value: Any) -> Any:
    """A value as one kind of thing; any error says that it is none."""
    typed = isinstance(value, str)
    if get_origin(kind) is Literal:
        return {str(choice): choice for choice in get_args(kind)}[value]
    if get_origin(kind) is tuple:
        first, second = value.split(",") if typed else value
        return _as(float, first), _as(float, second)
    if get_origin(kind) is not None:  # a table of parts
        return {str(part): _as(get_args(kind)[1], each) for part, each in value.items()}
    if kind is NoneType and (value is None or value.lower() == "none"):
        return None
    if kind is bool:
        return {"true": True, "false": False}[value.lower()] if typed else {True: True, False: False}[value]
    if kind is int and (typed or (isinstance(value, int) and not isinstance(value, bool))):
        return int(value)
    if kind is float and not isinstance(value, bool) and math.isfinite(float(value)):
        return float(value)
    raise ValueError


def _in_words(kind: Any) -> str:
    """What a kind of thing is called; tables cannot be typed and so are not told of."""
    if get_origin(kind) is Literal:
        return " or ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        return "two numbers with a comma between them"
    return {int: "a whole number", float: "a number", bool: "true or false", NoneType: "none"}.get(kind, "")


def _stored(path: Path) -> dict[str, Any]:
    try:
        stored = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    if not isinstance(stored, dict):
        raise InputError(f"{path} is no plan of a run")
    return stored


def _with_pairs(recipe: dict[str, Any]) -> dict[str, Any]:
    """JSON has no tuples: betas become pairs again."""
    betas = recipe["betas"]
    recipe["betas"] = {name: tuple(pair) for name, pair in betas.items()} if isinstance(betas, dict) else tuple(betas)
    return recipe

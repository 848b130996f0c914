"""Plans: a model with its settings, a recipe, and the world or task it learns from."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import torch
from torch import nn
from torch._subclasses import FakeTensorMode  # torch has no public name for it

from alebrije import __version__
from alebrije.checks import whole_number
from alebrije.errors import InputError
from alebrije.models import Batch, ModelRecord, build, get
from alebrije.models.catalog import RENAMED
from alebrije.seeding import seeded
from alebrije.suggest import did_you_mean
from alebrije.train.image_files import FileImages, ImageFile, is_image_file
from alebrije.train.labelled_pass import LabelledSet
from alebrije.train.labels import CHOICES, LabelledImages, Labels, balanced_rows
from alebrije.train.options import PreloadProgress
from alebrije.train.preloading import FOLDER, Store, preload
from alebrije.train.preset import ALL, Preset
from alebrije.train.presets import preset
from alebrije.train.process_group import ProcessGroup, process_count
from alebrije.train.recipe import PLATEAU, Recipe
from alebrije.train.scene_sets import (
    AllImages,
    Images,
    Part,
    SceneSet,
    TaskEpisodes,
    TaskSources,
    Values,
    Videos,
    known_factors,
    known_floats,
    remaining_indices,
)
from alebrije.train.settings import parse_setting
from alebrije.train.sources import PreloadedSource, Source, StreamedSource
from alebrije.train.view_sets import EachView, Views, views_of
from alebrije.worlds import Task, World, task
from alebrije.worlds import get as get_world
from alebrije.worlds import names as world_names
from alebrije.worlds.user_worlds import CONTENTS, user_world_inputs

MAX_SEED = 10**15  # torch takes 64 bits, and a seed is multiplied before it gets there
_DEFAULT_ALPHA = 0.6
_RECIPE_TYPES = get_type_hints(Recipe)
_DTYPES = {"factors": torch.int64, "labels": torch.int64}  # of the tensors in a batch that are not floats
_PRESET_WORLDS = {"dsprites": "dsprites", "shapes3d": "rooms"}  # kind of file -> the world with its recipe
_DRY_RUNS: set[str] = set()  # steps that this process has already tried


@dataclass(frozen=True)
class Plan:
    """A model with its settings, a recipe, and the world or task it learns from."""

    model: str
    settings: dict[str, Any]
    recipe: Recipe
    world: str  # or a file of images, such as "mpi3d:FILE"
    rule: str | None  # None: images of the world, with all its combinations
    alpha: float | None
    size: int
    images: int  # preloaded to the device; 0: new images are rendered throughout the training
    seed: int
    preset: str
    without: Values = ()  # no training image shows all of these values at once

    @property
    def record(self) -> ModelRecord:
        """The catalog entry of the model."""
        return get(self.model)

    @property
    def reads_scenes(self) -> bool:
        """Whether the model reads scenes instead of images, like SVIB's Oracle, and so has no codes."""
        return self.record.reads_scenes

    @property
    def predicts(self) -> bool:
        """Whether the model learns from episodes; other models learn from images of a world or of a task's sources."""
        return self.record.learns_from == "episodes"

    @property
    def labels(self) -> Labels | None:
        """The labels that the model learns from, if any."""
        data, text = self.world_or_task(), self.settings.get("labels")
        if self.record.learns_from != "labelled images" or text is None:
            return None
        if isinstance(data, ImageFile):
            if not data.names:
                raise InputError(f"{self.record.title} learns from labels, and {self.world} has no table of attributes")
            return Labels.parse(text, data.names, data.counts)
        if isinstance(data, Task) or data.whole is None:
            raise InputError(f"{self.record.title} learns from labels of one object, as in dsprites, rooms and arm")
        return Labels.parse(text, data.vocabulary.names, data.vocabulary.counts)

    @property
    def strata(self) -> Labels | None:
        """The factors whose combinations are equally often among the few labelled images, if a setting names them."""
        data, text = self.world_or_task(), self.settings.get("balance")
        if not text:
            return None
        if not isinstance(data, World):
            raise InputError(f"balance chooses among images of a world, not of {self.world}")
        return Labels.parse(text, data.vocabulary.names, data.vocabulary.counts, "balance")

    def world_or_task(self) -> World | Task | ImageFile:
        """Return the task if the plan has a rule, else the world or the file."""
        if self.rule is None:
            return ImageFile(self.world) if is_image_file(self.world) else get_world(self.world)
        return task(self.world, self.rule, _DEFAULT_ALPHA if self.alpha is None else self.alpha)

    def new_model(self) -> nn.Module:
        """Return the untrained model; its weights depend only on the seed."""
        with seeded(self.seed):
            return build(self.model, **self.settings)

    def scene_set(self, part: Part = "train") -> SceneSet:
        """Return the scenes or episodes of training, of validation, or of a task's test."""
        data = self.world_or_task()
        if isinstance(data, Task):
            task_set = TaskEpisodes if self.predicts else TaskSources
            return task_set(data, self.size, self.seed, part)
        if self.record.takes == "videos":
            assert isinstance(data, World)
            window, flow = self.settings["frames"], self.settings["target"] == "flow"
            return Videos(data, self.size, self.seed, part != "train", window=window, flow=flow)
        labels = self.labels
        if isinstance(data, World) and data.shows == "views":
            view_set = Views if self.record.takes == "views" else EachView
            return view_set(data, self.size, self.seed, part != "train")
        if isinstance(data, ImageFile):
            return FileImages(data, self.size, self.seed, self.images, part != "train", labels)
        world_set = AllImages if part == "train" and self.images == self.distinct_images else Images
        images = world_set(data, self.size, self.seed, part != "train", self.without)
        return images if labels is None else LabelledImages(images, labels)

    def source(
        self,
        device: torch.device,
        workers: int = 1,
        progress: PreloadProgress | None = None,
        folder: Path | None = None,
    ) -> Source:
        """Return the training batches; images rendered beforehand are kept in a run folder if there is one."""
        scene_set = self.scene_set()
        if isinstance(scene_set, FileImages):
            return PreloadedSource(scene_set.all(device), self.seed)
        if not self.images:
            return StreamedSource(scene_set, device)
        store = None if folder is None else Store(folder / FOLDER, self._image_settings(device))
        items = preload(scene_set, self.images, device, workers, progress, store)
        if isinstance(scene_set, Videos):
            items = scene_set.windows(items)
        return PreloadedSource(items, self.seed)

    def labelled_set(self, source: Source, device: torch.device) -> LabelledSet | None:
        """Return the few labelled images that the model learns from in passes of their own, if it does."""
        if "labelled" not in self.settings:
            return None
        count, batch, total = self.settings["labelled"], self.recipe.batch, self.images or self.distinct_images
        if self.settings["passes"] == "epoch" and not total:
            raise InputError("passes=epoch needs a number of images: use --images, or --set passes=step")
        if self.strata is not None:
            scenes = self.scene_set().scenes(0, self.images or CHOICES * count)
            items = self.scene_set().render(scenes[balanced_rows(self.strata, scenes, count, self.seed)], device)
        elif isinstance(source, PreloadedSource):
            items = source.some(count)
        else:
            items = self.scene_set().render(self.scene_set().scenes(0, count), device)
        if self.settings["passes"] == "step":
            return LabelledSet(items, batch, every=1, updates=1, seed=self.seed)
        return LabelledSet(items, batch, -(-(total or 0) // batch), -(-len(items["labels"]) // batch), self.seed)

    @property
    def edited_inputs(self) -> dict[str, str]:
        """The fingerprint of a user's own world, or of a file or folder of images; nothing for other data."""
        if is_image_file(self.world):
            return {CONTENTS: ImageFile(self.world).checksum}
        return user_world_inputs(self.world)

    def _image_settings(self, device: torch.device) -> dict[str, Any]:
        """Return everything that decides the images rendered beforehand."""
        names = ("alebrije", "world", "rule", "alpha", "size", "images", "seed", "without")
        stored = self.to_json()
        known = {name: stored[name] for name in names if name in stored}
        labels = self.labels
        more = {} if labels is None else {"labels": self.settings["labels"]}
        if self.record.takes == "videos":
            more["target"] = self.settings["target"]
        return {**known, "episodes": self.predicts, "device": device.type, **more, **self.edited_inputs}

    @property
    def distinct_images(self) -> int | None:
        """How many different images training may show; None if there is no limit."""
        world = self.world_or_task()
        if isinstance(world, ImageFile):
            labels = self.labels
            return len(world) if labels is None else len(world.rows(len(world), 0, labels.columns))
        if not isinstance(world, World) or world.whole is None:
            return None
        return len(remaining_indices(world, self.without)) if self.without else world.whole

    def leaving_out(self, values: Mapping[str, int]) -> Plan:
        """Return the same plan, but no training image shows all of `values` at once; for worlds of all combinations.

        >>> made = plan("beta-vae", preset_name="paper", world="rooms").leaving_out({"shape": 0, "scale": 7})
        >>> made.images, made.distinct_images, made.without
        (465000, 465000, (('scale', 7), ('shape', 0)))
        """
        world = self.world_or_task()
        if self.without or not isinstance(world, World) or world.whole is None:
            raise InputError("combinations can be left out of plans for dsprites, rooms or arm, once")
        counts = dict(zip(world.vocabulary.names, world.vocabulary.counts, strict=True))
        for name, value in values.items():
            if name not in counts:
                raise InputError(f"{self.world} has no factor {name!r}{did_you_mean(name, counts)}")
            if not 0 <= value < counts[name]:
                raise InputError(f"{name} has values 0 to {counts[name] - 1} in {self.world}, not {value}")
        if not values:
            raise InputError("a combination to leave out needs at least one value")
        reduced = replace(self, without=tuple(sorted(values.items())))
        remaining = reduced.distinct_images or 0
        fitted = {"dataset_size": remaining} if self.settings.get("dataset_size") == world.whole else {}
        images = remaining if self.images == world.whole else self.images
        return replace(reduced, images=images, settings=self.settings | fitted)

    def dry_run(self) -> None:
        """Raise an InputError if the model cannot take a step of this plan; computes only shapes."""
        key = repr((self.model, self.settings, self.recipe, self.size, self.world, self.rule, process_count()))
        if key in _DRY_RUNS:
            return
        assert self.record.model_class  # imported first: modules may hold tensors
        group = ProcessGroup(torch.device("cpu"), size=process_count())
        shapes = self._batch_shapes(group.size)
        with FakeTensorMode(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # only errors matter here
            try:
                batch = _blank_batch(shapes)
                model = build(self.model, **self.settings)
                group.check_batch(model, self.recipe.batch, self.recipe.accumulate)
                self.recipe.make_optimizer(model)
                model.training_loss(batch, torch.zeros(()))  # type: ignore[operator]
            except InputError:
                raise
            except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:
                fault = str(error).partition("\n")[0]
                raise InputError(f"{self.record.title} cannot train with these settings: {fault}") from error
        assert self.strata is None or self.strata.counts
        _DRY_RUNS.add(key)

    def seconds_per_step(self) -> float:
        """Measure the forward and backward pass of a step on this CPU, with blank images and untrained weights.

        The fastest of up to three is returned; slow ones are tried once.
        """
        fastest, spent = math.inf, 0.0
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model, batch = self.new_model().train(), _blank_batch(self._batch_shapes(process_count()))
            while spent < 1.0 and not spent >= 3 * fastest:
                start = time.perf_counter()
                with torch.autocast("cpu", torch.bfloat16, self.recipe.precision == "bfloat16", False):
                    loss = model.training_loss(batch, torch.zeros(()))["loss"]  # type: ignore[operator]
                loss.backward()
                fastest = min(fastest, time.perf_counter() - start)
                spent += time.perf_counter() - start
        return fastest * self.recipe.accumulate

    def _batch_shapes(self, processes: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the share of a batch that a process learns from at once."""
        data, share = self.world_or_task(), self.recipe.batch // (processes * self.recipe.accumulate)
        names = ("source", "target") if self.predicts else ("images",)
        known = _known(data) if self.predicts and isinstance(data, Task) else {}
        images: dict[str, tuple[int, ...]] = dict.fromkeys(names, (share, 3, self.size, self.size))
        if self.record.takes == "videos":
            frames, objects = self.settings["frames"], data.sample(1).objects  # type: ignore[union-attr]
            videos = (share, frames, 3, self.size, self.size)
            return {"images": videos, "flow": videos, "boxes": (share, frames, objects, 4)}
        if self.record.takes == "views":
            views = views_of(self.world)
            images = {"images": (share, views, 3, self.size, self.size), "cameras": (share, views, 3)}
        labels = self.labels
        more = {} if labels is None else {"labels": (share, len(labels.counts))}
        return images | {name: (share, *tensor.shape[1:]) for name, tensor in known.items()} | more

    def to_json(self) -> dict[str, Any]:
        """Return the plan as it is stored."""
        stored = {"alebrije": __version__, **asdict(self), "without": dict(self.without)}
        if not self.without:  # runs of older versions do not have it
            del stored["without"]
        if self.recipe.decay != "plateau":  # nor these
            stored["recipe"] = {name: value for name, value in stored["recipe"].items() if name not in PLATEAU}
        return stored

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Plan:
        """Return a stored plan."""
        values = {field.name: stored[field.name] for field in fields(cls) if field.name != "without"}
        values["without"] = tuple(sorted(stored.get("without", {}).items()))
        values["model"] = RENAMED.get(values["model"], values["model"])
        recipe = dict(values.pop("recipe"))
        betas = recipe.pop("betas")  # JSON has no tuples
        pairs = {name: tuple(pair) for name, pair in betas.items()} if isinstance(betas, dict) else tuple(betas)
        return cls(**values, recipe=Recipe(**recipe, betas=pairs))


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
    dry_run: bool = True,
) -> Plan:
    """Make a plan from a preset and changes to it; raise an InputError if it cannot work.

    `settings` belong to the model or the recipe, or are `size`; values may be text, as typed on a command line. With a
    rule, a model that learns from images sees the sources of training episodes, so no combination that `alpha` holds
    out. A dry run of one step takes up to a second.

    >>> made = plan("i2i-vit", preset_name="small", settings={"steps": "20000"})
    >>> made.recipe.steps, made.recipe.batch, made.world, made.rule, made.size
    (20000, 32, 'sprites', 'S-A', 128)
    >>> type(plan("slot-attention", preset_name="tiny", rule="S-A", alpha=0.2).scene_set()).__name__
    'TaskSources'
    """
    record, chosen = get(model), preset(model, preset_name, _world_of_preset(world))
    preset_world, _, preset_rule = chosen.data[0].partition("/")
    rule = rule or (preset_rule if world is None or not is_image_file(world) else "") or None
    world = world or preset_world
    if rule is not None and is_image_file(world):
        raise InputError(f"{world} has images, and a rule makes episodes of scenes; leave out one of them")
    if record.learns_from == "episodes" and rule is None:
        raise InputError(f"{record.title} learns from episodes of a task, such as sprites/S-A, not from {world}")
    if rule is None and alpha is not None:
        raise InputError(f"{record.title} learns from a world here, so alpha has no meaning; it belongs to tasks")
    if (seed := whole_number("seed", seed)) >= MAX_SEED:
        raise InputError(f"seed must be less than {MAX_SEED:,}, not {seed}")
    data = ImageFile(world) if is_image_file(world) else get_world(world)
    _check_data(record, data, rule, images)
    changes = dict(settings or {})
    size = whole_number("size", parse_setting("size", changes.pop("size", chosen.size), int), least=1)
    model_settings, recipe_settings = _sorted_settings(record, changes)
    recipe_settings = {"batch": chosen.batches.get(world, chosen.recipe.batch)} | recipe_settings
    model_settings = dict(chosen.model) | model_settings
    made = Plan(
        model=record.name,
        settings=model_settings,
        recipe=replace(chosen.recipe, **recipe_settings),
        world=world,
        rule=rule,
        alpha=_DEFAULT_ALPHA if rule is not None and alpha is None else alpha,
        size=size,
        images=_image_count(images, chosen, data),
        seed=seed,
        preset=preset_name,
    )
    defaults = record.defaults()
    made = replace(made, settings=defaults | _fitted_settings(made, defaults) | model_settings)
    if dry_run:
        made.dry_run()
    return made


def _check_data(record: ModelRecord, data: World | ImageFile, rule: str | None, images: int | None) -> None:
    """Raise an InputError unless a model can learn from a world or file; views are images, too."""
    shows = data.shows if isinstance(data, World) and rule is None else "images"
    if record.takes == "images":
        if isinstance(data, World) and (shows, record.learns_from) != ("views", "images"):
            data.require_images(record.title)
        return
    if shows != record.takes:
        fitting = ", ".join(name for name in world_names() if get_world(name).shows == record.takes)
        what = data.name if rule is None else f"{data.name}/{rule}"
        raise InputError(f"{record.title} learns from {record.takes}, and {what} has {shows}; choose from {fitting}")
    if images == 0 and shows == "videos":
        raise InputError(f"{record.title} learns from videos rendered beforehand, so images must not be 0")


def _sorted_settings(record: ModelRecord, changes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parse changes to a preset, and return those of the model and those of the recipe."""
    of_model: dict[str, Any] = {}
    of_recipe: dict[str, Any] = {}
    types = record.setting_types()
    for key, value in changes.items():
        recipe_key = key.removeprefix("recipe.")  # for a name that model and recipe share, such as momentum
        if key in record.defaults():
            of_model[key] = parse_setting(key, value, types[key])
        elif recipe_key in _RECIPE_TYPES:
            of_recipe[recipe_key] = parse_setting(key, value, _RECIPE_TYPES[recipe_key])
        else:
            known = [*record.defaults(), *_RECIPE_TYPES, "size"]
            raise InputError(f"{record.title} and its recipe have no setting {key!r}{did_you_mean(key, known)}")
    return of_model, of_recipe


def _fitted_settings(made: Plan, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model settings that follow from the data."""
    data = made.world_or_task()
    fitted: dict[str, Any] = {"size": made.size}
    if defaults.get("channels") == 3 and made.world.partition(":")[0] == "dsprites":  # of images, not of layers
        fitted["channels"] = 1
    if "labels" in defaults:
        labels = replace(made, settings=dict(defaults) | made.settings).labels
        fitted["counts"] = labels.counts if labels is not None else ()
    if not made.predicts:
        fitted["dataset_size"] = made.images or made.distinct_images or made.recipe.steps * made.recipe.batch
    elif isinstance(data, Task):
        fitted |= {name: tensor.shape[-1] for name, tensor in _known(data).items()}
        vocabulary = data.world.vocabulary
        needed, values = max(*vocabulary.counts, len(vocabulary.background)), made.settings.get("values", math.inf)
        if values < needed:
            raise InputError(f"factors of {made.world} have up to {needed} values, so values={values} is too few")
    return {name: value for name, value in fitted.items() if name in defaults}


def _blank_batch(shapes: Mapping[str, tuple[int, ...]]) -> Batch:
    """Return a batch of zeros."""
    return {name: torch.zeros(shape, dtype=_DTYPES.get(name)) for name, shape in shapes.items()}


def _known(data: Task) -> Batch:
    """Return the factors [1, N, F] and floats [1, N, P] of one source scene, for their shapes."""
    scenes = data.train(1).source
    return {"factors": known_factors(scenes), "floats": known_floats(scenes)}


def _world_of_preset(world: str | None) -> str | None:
    """Return the world whose preset suits a file."""
    kind = (world or "").partition(":")[0]
    return _PRESET_WORLDS.get(kind, world)


def _image_count(images: int | None, chosen: Preset, world: World | ImageFile) -> int:
    """Return how many images to preload; all of a grid where the preset says so, and all of a file."""
    if isinstance(world, ImageFile):
        total = len(world)
        if images is not None and not 1 <= whole_number("images", images) <= total:
            raise InputError(f"images must be 1 to {total:,}, the number in {world.name}, not {images}")
        return total if images is None else images
    if images is None:
        return (world.whole or 0) if chosen.images == ALL else chosen.images
    return whole_number("images", images)

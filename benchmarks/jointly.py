"""Train the models of the paper of SNC and NK beside each other on one GPU, shorter than the paper, and score them.

    python benchmarks/jointly.py FOLDER neurons [--models ...] [--steps 30000] [--limit SECONDS]
    python benchmarks/jointly.py FOLDER generalisation [--models ...] [--steps 8000] [--limit SECONDS]

`neurons` trains each model on dsprites and scores 30,000 images, as `evidence.py` does. `generalisation` trains each on
rooms without one of five pairs of a size and a shape, and reads both from 4,000 images with the heads of the study.
Every model takes its own captured step on a stream of its own; plans are those of the preset `small`, on all images.
FOLDER gets a record and the weights in half precision, without discriminators. After `--limit` seconds, training ends.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from alebrije.instruments.neurons.generalisation import PAIRS, chance
from alebrije.instruments.neurons.images import Corpus
from alebrije.probes import linear_predictions, mlp_predictions
from alebrije.train.labelled_pass import LabelledPass
from alebrije.train.labels import LabelledImages
from alebrije.train.plan import Plan, plan
from alebrije.train.preloading import preload
from alebrije.train.process_group import ProcessGroup
from alebrije.train.scene_sets import remaining_indices
from alebrije.train.sources import PreloadedSource, to_float
from alebrije.train.train_step import TrainStep
from alebrije.worlds import World
from alebrije.worlds import get as get_world
from annealing import evaluation, scores
from evidence import neurons, sheet

MODELS = ("beta-vae", "beta-tcvae", "factor-vae", "parted-vae", "parted-vae-ss", "weakde", "annealed-vae")
GENERALISING = ("annealed-vae", "beta-tcvae", "parted-vae")
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {("parted-vae", "rooms"): {"classes": 4}}  # as in the preset `paper`
HEADS = {"epochs": 75, "learning_rate": 1e-2, "batch_size": 64}  # of the study at size small
HELD_IMAGES = 4_000


@dataclass(eq=False)
class SomeImages(PreloadedSource):
    """The same images as other models learn from, but only some of them."""

    rows: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))

    def __len__(self) -> int:
        return len(self.rows)

    def _shuffled(self, epoch: int) -> Tensor:
        fresh = epoch != self._epoch
        order = super()._shuffled(epoch)
        if fresh:
            self._order = order = self.rows[order]
        return order


@dataclass(eq=False)
class Member:
    """A model that learns beside others."""

    name: str
    plan: Plan
    model: nn.Module
    source: PreloadedSource
    step: TrainStep
    stream: torch.cuda.Stream | None

    def learn(self, step: int) -> None:
        """Take one step."""
        batch = self.plan.recipe.batch
        if self.stream is None:
            self.step.run(self.source.batch(step * batch, batch))
            return
        with torch.cuda.stream(self.stream):
            self.step.run(self.source.batch(step * batch, batch))


def member(name: str, made: Plan, items: dict[str, Tensor], device: torch.device) -> Member:
    """Make a model and its step, captured but not compiled."""
    world = get_world(made.world)
    rows = torch.from_numpy(remaining_indices(world, made.without)) if made.without else torch.arange(world.whole or 0)
    rows = rows[rows < len(items["images"])].to(device)
    source = SomeImages(with_labels(made, items, device), made.seed, rows=rows)
    layout = torch.channels_last if device.type == "cuda" else torch.preserve_format
    model = made.new_model().to(device, memory_format=layout).train()  # type: ignore[call-overload]
    optimizer = made.recipe.make_optimizer(model)
    stream = torch.cuda.Stream(device) if device.type == "cuda" else None
    if labelled := made.labelled_set(source, device):
        rate = float(optimizer.param_groups[0]["peak"])
        optimizer.labelled = LabelledPass(model, labelled, rate, made.recipe.precision, fast=True)
    step = TrainStep(model, optimizer, made.recipe, ProcessGroup(device), True, 0)
    step.loss = model.training_loss
    return Member(name, made, model, source, step, stream)


def with_labels(made: Plan, items: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Return the images with the labels that a model learns from."""
    scene_set = replace(made, without=()).scene_set()
    if not isinstance(scene_set, LabelledImages):
        return items
    factors = scene_set.scenes(0, len(items["images"])).factors[:, 0]
    return {**items, "labels": scene_set.labels.of(factors).to(device)}


def plans(kind: str, models: list[str], seeds: list[int], steps: int, images: int) -> Iterator[tuple[str, Plan]]:
    """Yield the name and the plan of every model."""
    world = "dsprites" if kind == "neurons" else "rooms"
    for text in models:
        name, _, seed_of_one = text.partition("/")
        settings = SETTINGS.get((name, world), {})
        if kind == "generalisation" and name == "annealed-vae":
            settings = {"capacity": 15.0, "anneal": 3 * steps // 4}  # rooms need more nats than dsprites
        for seed in [int(seed_of_one)] if seed_of_one else seeds:
            made = plan(
                name, preset_name="small", world=world, images=images, seed=seed, settings=settings, dry_run=False
            )
            made = replace(made, recipe=replace(made.recipe, steps=steps))
            if kind == "neurons":
                yield f"{name}-{seed}", made
                continue
            for size, shape in PAIRS["rooms"][:5]:
                yield f"{name}-{seed}-{size}-{shape}", made.leaving_out({"scale": size, "shape": shape})


@torch.no_grad()
def generalisation(made: Plan, model: nn.Module, corpus: Corpus, images: Tensor, classes: Any) -> dict[str, Any]:
    """Accuracies of heads on the pair that neither the model nor they have seen."""
    codes = torch.cat([model(to_float(part)).vector for part in images.split(500)]).double().cpu().numpy()
    without = dict(made.without)
    held = (classes == (without["scale"], without["shape"])).all(1)
    parts = codes[~held], classes[~held], codes[held]
    found: dict[str, Any] = {"held out": without, "images": int(held.sum())}
    linear = {"epochs": HEADS["epochs"], "learning_rate": HEADS["learning_rate"], "batch_size": HEADS["batch_size"]}
    with torch.enable_grad():
        read = {
            "MLP": mlp_predictions(*parts, **HEADS, device=images.device),
            "linear": linear_predictions(*parts, **linear, device=images.device),
        }
    for name, predicted in read.items():
        right = predicted == classes[held]
        accuracies = {"size": right[:, 0].mean(), "shape": right[:, 1].mean(), "both": right.all(1).mean()}
        found[name] = {feature: round(float(value), 4) for feature, value in accuracies.items()}
    found["chance"] = {feature: chance(corpus, feature) for feature in ("size", "shape", "both")}
    return found


class OverTraining:
    """SNC and MIG of models on 10,000 images after some steps, computed by other processes meanwhile."""

    def __init__(self, every: int, count: int, workers: int, device: torch.device) -> None:
        self.every = every
        self.images, self.factors = evaluation(count, device) if every else (torch.empty(0), torch.empty(0))
        self.pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn")) if every else None
        self.found: dict[str, list[tuple[int, Future[dict[str, Any]]]]] = {}

    @torch.no_grad()
    def score(self, members: list[Member], step: int) -> None:
        """Encode the images by all models and have the codes scored, if it is time."""
        if self.pool is None or step % self.every:
            return
        for each in members:
            each.model.eval()
            codes = torch.cat([each.model(to_float(part)).vector for part in self.images.split(500)]).cpu()
            each.model.train()
            future = self.pool.submit(scores, codes.numpy(), self.factors.numpy())
            self.found.setdefault(each.name, []).append((step, future))

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the scores of a model by step."""
        return [{"step": step, **future.result()} for step, future in self.found.get(name, [])]


def train(members: list[Member], steps: int, ends: float, over_training: OverTraining) -> int:
    """Take the steps of all models, until a time; return how many were taken."""
    clock = time.perf_counter()
    for step in range(steps):
        for each in members:
            each.learn(step)
        if step % 500 == 499 or step == steps - 1:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            losses = {each.name: round(each.step.mean_losses(None)["loss"], 1) for each in members}
            over_training.score(members, step + 1)
            pace = 1000 * (time.perf_counter() - clock) / (step + 1)
            print(
                f"step {step + 1}: {pace:.2f} ms for all", json.dumps(losses) if step % 5000 == 4999 else "", flush=True
            )
            if time.perf_counter() > ends:
                return step + 1
    return steps


def main() -> None:
    """Train and score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("kind", choices=("neurons", "generalisation"))
    parser.add_argument("--models", nargs="*", help="names, or NAME/SEED for one seed")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--limit", type=float, default=float("inf"))
    parser.add_argument("--images", type=int, help="learn from the first images only, to try this on a CPU")
    parser.add_argument("--score-every", type=int, default=0, help="steps between scores of 10,000 images; 0: none")
    parser.add_argument("--scored", type=int, default=30_000, help="images of dsprites to score")
    parser.add_argument("--weights", nargs="*", default=[], help="models whose weights are kept")
    told, began = parser.parse_args(), time.perf_counter()
    told.folder.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cudnn.benchmark = True
    models = told.models or (MODELS if told.kind == "neurons" else GENERALISING)
    world: World = get_world("dsprites" if told.kind == "neurons" else "rooms")
    named = list(plans(told.kind, models, told.seeds, told.steps, world.whole or 0))
    base = plan("ae", preset_name="paper", world=world.name, dry_run=False)
    items = preload(base.scene_set(), told.images or world.whole or 0, device)
    print(f"{len(named)} models, images after {time.perf_counter() - began:.1f} s", flush=True)
    over_training = OverTraining(told.score_every, min(10_000, told.scored), 12, device)
    torch.manual_seed(1)
    members = [member(name, made, items, device) for name, made in named]
    if device.type == "cuda":
        torch.cuda.synchronize()
    clock = time.perf_counter()
    taken = train(members, told.steps, began + told.limit, over_training)
    seconds = time.perf_counter() - clock
    shared = {
        "steps": taken,
        "of steps": told.steps,
        "seconds for all": round(seconds, 1),
        "models beside each other": len(members),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
        "torch": torch.__version__,
    }
    records: dict[str, Any] = {}
    examined = examination(told.kind, device)
    for each in members:
        each.model.eval()
        if each.plan.model in told.weights:
            state = {name: value.half().cpu().contiguous() for name, value in each.model.state_dict().items()}
            kept = {name: value for name, value in state.items() if not name.startswith("discriminator.")}
            save_file(kept, told.folder / f"{each.name}.safetensors")
        if told.kind == "neurons":
            with torch.no_grad(), torch.random.fork_rng():
                found, rows = neurons(each.plan, each.model, device, told.scored)
            found["over training"] = over_training.rows(each.name)
            sheet(rows, told.folder / f"{each.name}.jpg")
        else:
            found = generalisation(each.plan, each.model, *examined)
        records[each.name] = {"found": found, **shared, "plan": each.plan.to_json()}
        print(each.name, json.dumps(found), f"{time.perf_counter() - began:.1f} s", flush=True)
        (told.folder / f"{told.kind}.json").write_text(json.dumps(records, indent=1) + "\n")
    if over_training.pool is not None:
        over_training.pool.shutdown()


def examination(kind: str, device: torch.device) -> tuple[Any, ...]:
    """The corpus of the study of generalisation, its images, and their size and shape."""
    if kind == "neurons":
        return ()
    corpus = Corpus("rooms", HELD_IMAGES)
    world = get_world("rooms")
    scenes = world.sample(HELD_IMAGES, seed=corpus.seed)
    names = scenes.vocabulary.names
    classes = np.asarray(scenes.factors[:, 0][:, [names.index("scale"), names.index("shape")]])
    return corpus, world.images(scenes, 64, device), classes


if __name__ == "__main__":
    main()

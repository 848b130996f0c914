"""Train the models of the paper of SNC and NK beside each other on one GPU, shorter than the paper, and score them.

    python benchmarks/jointly.py FOLDER neurons [--models ...] [--steps 30000] [--limit SECONDS]
    python benchmarks/jointly.py FOLDER generalisation [--models ...] [--steps 8000] [--limit SECONDS]

`neurons` trains each model on dsprites and scores 10,000 images. `generalisation` trains each on
rooms without one of five pairs of a size and a shape, and reads both from 4,000 images with the heads of the study.
Every model takes the step of `alebrije train`, on a stream of its own, and one CUDA graph holds several steps of all.
Plans are those of the preset `small`, on all images. FOLDER gets a record and the weights in half precision, without
discriminators. After `--limit` seconds, training ends; if `--essential` models cannot take all their steps by then
beside the others, the others are left out.
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

from alebrije import metrics
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
from evidence import codes_of, neuron_pictures, sheet

MODELS = ("beta-vae", "beta-tcvae", "factor-vae", "parted-vae", "parted-vae-ss", "weakde", "annealed-vae")
GENERALISING = ("annealed-vae", "beta-tcvae", "parted-vae")
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {("parted-vae", "rooms"): {"classes": 4}}  # as in the preset `paper`
HEADS = {"epochs": 75, "learning_rate": 1e-2, "batch_size": 64}  # of the study at size small
HELD_IMAGES = 4_000
STEPS_IN_GRAPH = 10


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


class Scorer:
    """SNC and MIG of models, computed by other processes meanwhile."""

    def __init__(self, count: int, workers: int, device: torch.device) -> None:
        self.images, self.factors = evaluation(count, device)
        self.pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
        self.found: dict[str, list[tuple[int, Future[dict[str, Any]]]]] = {}

    @torch.no_grad()
    def score(self, members: list[Member], step: int) -> None:
        """Encode the images by all models and have the codes scored."""
        for each in members:
            each.model.eval()
            codes = codes_of(each.model, self.images)
            each.model.train()
            future = self.pool.submit(scores, codes.numpy(), self.factors.numpy())
            self.found.setdefault(each.name, []).append((step, future))

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the scores of a model by step."""
        return [{"step": step, **future.result()} for step, future in self.found.get(name, [])]

    def examine(self, each: Member, folder: Path) -> dict[str, Any]:
        """Return all scores of a model in eval mode, and keep a picture of what its neurons do."""
        with torch.no_grad():
            codes = codes_of(each.model, self.images)
            sheet(neuron_pictures(each.model, self.images, codes), folder / f"{each.name}.jpg")
        without = metrics.neuron_knockout(codes, self.factors, device=str(self.images.device))
        accuracy = {"all neurons": without.full_accuracy, "all but one": without.knockout_accuracy}
        rounded = {name: [round(float(value), 4) for value in values] for name, values in accuracy.items()}
        rows = self.rows(each.name)
        alone = rows[-1]
        return {
            "MIG": alone["MIG"],
            "SNC": alone["SNC"],
            "NK": without.score,
            "factors": ["shape", "scale", "orientation", "position x", "position y"],
            "accuracy": {"one neuron": alone["accuracy"], **rounded},
            "over training": rows,
        }


class DeviceBatches:
    """Batches of a source in its own order, chosen on the device, so that a CUDA graph can choose them."""

    def __init__(self, source: PreloadedSource, batch: int, steps: int, device: torch.device) -> None:
        self.items, self.batch = source.items, batch
        epochs = -(-steps * batch // len(source))
        self.order = torch.cat([source._shuffled(epoch).int() for epoch in range(epochs)])[: steps * batch]
        self.place = torch.zeros((), dtype=torch.long, device=device)
        self.within = torch.arange(batch, device=device)

    def next(self) -> dict[str, Tensor]:
        """Return the next batch."""
        rows = self.order[self.place + self.within].long()
        self.place.add_(self.batch)
        return {name: tensor[rows] for name, tensor in self.items.items()}


class Together:
    """Several steps of all models as one CUDA graph with a branch for each model; on a CPU, one after another."""

    def __init__(
        self, members: list[Member], steps: int, device: torch.device, steps_in_graph: int = STEPS_IN_GRAPH
    ) -> None:
        self.members, self.device, self.count = members, device, steps_in_graph
        self.batches = {
            each.name: DeviceBatches(each.source, each.plan.recipe.batch, steps, device) for each in members
        }
        self.labelled = {
            each.name: DeviceBatches(each.step.optimizer.labelled.source, each.plan.recipe.batch, steps, device)
            for each in members
            if each.step.optimizer.labelled is not None
        }
        for each in members:
            assert each.plan.recipe.decay == "constant"
            assert not each.plan.recipe.warmup
        self.graph: torch.cuda.CUDAGraph | None = None
        self.taken = 0
        if device.type == "cuda":
            torch.cuda.synchronize()  # the streams of the models do not wait for what is written here

    def run(self, steps: int) -> None:
        """Take some steps, a multiple of those in a graph."""
        while steps > 0:
            if self.taken and self.graph is None and self.device.type == "cuda":
                self.capture()
            if self.graph is None:
                for each in self.members:
                    with torch.cuda.stream(each.stream):
                        self.learn(each)
            else:
                self.graph.replay()
            taken = min(steps, self.count)
            steps, self.taken = steps - taken, self.taken + taken
            for each in self.members:
                each.step.steps_in_totals += taken

    def learn(self, each: Member) -> None:
        """Take the steps of one model."""
        for _ in range(self.count):
            if (labelled := each.step.optimizer.labelled) is not None:
                labelled._learn(self.labelled[each.name].next())
            each.step._learn(self.batches[each.name].next())

    def capture(self) -> None:
        """Capture the steps of all models."""
        torch.cuda.synchronize()
        clock, main = time.perf_counter(), torch.cuda.Stream(self.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=main, capture_error_mode="thread_local"):
            for each in self.members:
                assert each.stream is not None
                each.stream.wait_stream(main)
                with torch.cuda.stream(each.stream):
                    self.learn(each)
                main.wait_stream(each.stream)
        self.graph = graph
        print(f"captured after {time.perf_counter() - clock:.1f} s", flush=True)


def train(
    members: list[Member], steps: int, ends: float, scorer: Scorer | None, score_every: int, essential: int
) -> int:
    """Take the steps of all models, until a time; return how many were taken. Members that are left out are removed."""
    device = next(members[0].model.parameters()).device
    together, taken, clock, look = Together(members, steps, device), 0, time.perf_counter(), min(500, steps)
    while taken < steps:
        before = time.perf_counter()
        together.run(min(look, steps - taken))
        losses = {each.name: round(each.step.mean_losses(None)["loss"], 1) for each in members}  # waits for the device
        taken = min(taken + look, steps)
        pace = (time.perf_counter() - before) / look
        if scorer is not None and score_every and taken % score_every == 0 and taken < steps:
            scorer.score(members, taken)
        if taken % 2500 == 0 or taken <= 2 * look:
            spent = time.perf_counter() - clock
            print(f"step {taken}: {1000 * pace:.2f} ms for all, {spent:.1f} s", json.dumps(losses), flush=True)
        left = ends - time.perf_counter()
        if taken == 2 * look and essential and pace * (steps - taken) > left:
            print(f"only the first {essential} models go on", flush=True)
            del members[essential:]
            together.members, together.graph = members, None
        if left < 0:
            break
    if scorer is not None:
        scorer.score(members, taken)
    return taken


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
    parser.add_argument("--essential", type=int, default=0, help="so many models may go on without the others")
    parser.add_argument("--score-every", type=int, default=0, help="steps between scores of 10,000 images; 0: none")
    parser.add_argument("--scored", type=int, default=10_000, help="images of dsprites to score")
    parser.add_argument("--weights", nargs="*", default=[], help="models whose weights are kept")
    told, began = parser.parse_args(), time.perf_counter()
    if told.steps % STEPS_IN_GRAPH or told.score_every % STEPS_IN_GRAPH:
        parser.error(f"--steps and --score-every must be multiples of {STEPS_IN_GRAPH}, the steps in a graph")
    told.folder.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cudnn.benchmark = True
    models = told.models or (MODELS if told.kind == "neurons" else GENERALISING)
    world: World = get_world("dsprites" if told.kind == "neurons" else "rooms")
    named = list(plans(told.kind, models, told.seeds, told.steps, world.whole or 0))
    base = plan("ae", preset_name="paper", world=world.name, dry_run=False)
    items = preload(base.scene_set(), told.images or world.whole or 0, device)
    print(f"{len(named)} models, images after {time.perf_counter() - began:.1f} s", flush=True)
    scorer = Scorer(told.scored, 12, device) if told.kind == "neurons" else None
    torch.manual_seed(1)
    members = [member(name, made, items, device) for name, made in named]
    if device.type == "cuda":
        torch.cuda.synchronize()
    clock = time.perf_counter()
    taken = train(members, told.steps, began + told.limit, scorer, told.score_every, told.essential)
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
        found = scorer.examine(each, told.folder) if scorer else generalisation(each.plan, each.model, *examined)
        records[each.name] = {"found": found, **shared, "plan": each.plan.to_json()}
        print(each.name, json.dumps(found), f"{time.perf_counter() - began:.1f} s", flush=True)
        (told.folder / f"{told.kind}.json").write_text(json.dumps(records, indent=1) + "\n")
    if scorer is not None:
        scorer.pool.shutdown()


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

"""Train many AnnealedVAEs on dsprites at once, each with its own seed, capacity schedule and rate, and score them.

    python benchmarks/annealing.py FOLDER TRIAL... [--steps 30000] [--every 5000] [--limit SECONDS]

TRIAL is a table of settings as JSON, such as '{"name": "paper", "gamma": 100, "seeds": [0, 1, 2]}'. A network of this
size leaves most of a GPU idle, so all models take each step together: one product of matrices stands for a layer of
all of them. Images, their order, initial weights, losses, optimizer and precision are those of `alebrije train
annealed-vae --preset paper`; only the noise differs. SNC and MIG of every model on 10,000 images go to
FOLDER/scores.jsonl at once, and weights in half precision to FOLDER/weights-STEP.safetensors at the steps of `--keep`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from alebrije import metrics, worlds
from alebrije.graphs import Repeated
from alebrije.models.autoencoders import AnnealedVAE
from alebrije.seeding import seeded
from alebrije.train.plan import plan
from alebrije.train.preloading import preload

SHUFFLE = 7_919  # as in PreloadedSource


@dataclass(frozen=True)
class Trial:
    """The settings of one model; the defaults are those of the preset `paper`."""

    name: str = "paper"
    seed: int = 0
    gamma: float = 100.0
    capacity: float = 25.0
    anneal: int = 100_000
    power: float = 1.0  # the capacity rises with this power of the step
    lr: float = 5e-4
    start: str = "kaiming"  # initial weights: of the library, or "torch"

    def new_model(self) -> AnnealedVAE:
        """Return the untrained model, with the weights that `alebrije train` starts from."""
        model = plan("annealed-vae", preset_name="paper", seed=self.seed, dry_run=False).new_model()
        assert isinstance(model, AnnealedVAE)
        if self.start == "torch":
            with seeded(self.seed):
                for layer in model.modules():
                    if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
                        layer.reset_parameters()
        return model


class Patches(torch.autograd.Function):
    """The 4x4 patches at every second pixel of images [N, B, H, W, C], padded by one: [N, B, H/2, W/2, 16 C]."""

    @staticmethod
    def forward(context: Any, images: Tensor) -> Tensor:  # type: ignore[override]
        """Gather the patches."""
        return gather_patches(images)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        """Add overlapping patches up."""
        return add_patches(gradient)


class Images(torch.autograd.Function):
    """The sum of overlapping patches, the adjoint of `Patches`."""

    @staticmethod
    def forward(context: Any, patches: Tensor) -> Tensor:  # type: ignore[override]
        """Add overlapping patches up."""
        return add_patches(patches)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        """Gather the patches."""
        return gather_patches(gradient)


def gather_patches(images: Tensor) -> Tensor:
    """Return patches [N, B, H/2, W/2, 16 C] of images [N, B, H, W, C]."""
    padded = F.pad(images, (0, 0, 1, 1, 1, 1))
    patches = padded.unfold(2, 4, 2).unfold(3, 4, 2).permute(0, 1, 2, 3, 5, 6, 4)  # [N, B, H/2, W/2, 4, 4, C]
    return patches.reshape(*patches.shape[:4], -1)


def add_patches(patches: Tensor) -> Tensor:
    """Return the sums [N, B, H, W, C] of patches [N, B, H/2, W/2, 16 C]."""
    models, batch, rows, columns, size = patches.shape
    parts = patches.view(models, batch, rows, columns, 2, 2, 2, 2, size // 16)
    sums = patches.new_zeros(models, batch, rows + 1, 2, columns + 1, 2, size // 16)
    for down in (0, 1):
        for right in (0, 1):
            part = parts[:, :, :, :, down, :, right].permute(0, 1, 2, 4, 3, 5, 6)
            sums[:, :, down : down + rows, :, right : right + columns] += part
    return sums.view(models, batch, 2 * rows + 2, 2 * columns + 2, -1)[:, :, 1:-1, 1:-1]


class Stack:
    """Several VAEs of one architecture; `values` holds all their parameters, a row for each model. [N, P]"""

    def __init__(self, models: list[AnnealedVAE], device: torch.device, dtype: torch.dtype) -> None:
        self.models, self.dtype = models, dtype
        rows = [torch.cat([weight.detach().flatten() for weight in model.parameters()]) for model in models]
        self.values = torch.stack(rows).to(device).requires_grad_()

    def weights(self) -> dict[str, Tensor]:
        """Return the parameters of all models by name, a view of one copy in the precision of the computation."""
        values, start, found = self.values.to(self.dtype), 0, {}
        for name, weight in self.models[0].named_parameters():
            found[name] = values[:, start : start + weight.numel()].view(len(values), *weight.shape)
            start += weight.numel()
        return found

    def write_back(self) -> None:
        """Copy the parameters to the models, on the CPU."""
        for model, row in zip(self.models, self.values.detach().cpu(), strict=True):
            nn.utils.vector_to_parameters(row, model.parameters())

    def posterior(self, images: Tensor, weights: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return means and log variances [N, B, D] of images [N, B, 64, 64, 1]."""
        codes = self._run("encoder", self.models[0].encoder, images.to(self.dtype), weights)
        mean, log_variance = codes.float().chunk(2, dim=2)
        return mean, log_variance

    def decode(self, latents: Tensor, weights: dict[str, Tensor]) -> Tensor:
        """Return logits [N, B, 64, 64, 1] of latents [N, B, D]."""
        return self._run("decoder", self.models[0].decoder, latents.to(self.dtype), weights)

    def losses(self, images: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the reconstruction error and the KL of every model, means over images. [N] each"""
        weights = self.weights()
        mean, log_variance = self.posterior(images, weights)
        logits = self.decode(mean + (0.5 * log_variance).exp() * noise, weights).float()
        error = F.binary_cross_entropy_with_logits(logits, images, reduction="none").flatten(2).sum(2).mean(1)
        kl = 0.5 * (mean.square() + log_variance.exp() - 1.0 - log_variance).sum(2).mean(1)
        return error, kl

    def _run(self, part: str, layers: nn.Module, values: Tensor, weights: dict[str, Tensor]) -> Tensor:
        for index, layer in layers.named_children():
            if isinstance(layer, nn.ReLU):
                values = values.relu()
            elif isinstance(layer, nn.Flatten):
                values = values.permute(0, 1, 4, 2, 3).flatten(2)
            elif isinstance(layer, nn.Unflatten):
                values = values.unflatten(2, layer.unflattened_size).permute(0, 1, 3, 4, 2)  # type: ignore[arg-type]
            else:
                weight, bias = weights[f"{part}.{index}.weight"], weights[f"{part}.{index}.bias"]
                values = apply_layer(layer, values, weight, bias)
        return values


def apply_layer(layer: nn.Module, values: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Apply one layer of every model: 4x4 kernels of stride 2, or a linear layer."""
    if isinstance(layer, nn.Linear):
        return torch.baddbmm(bias[:, None], values, weight.transpose(1, 2))
    if isinstance(layer, nn.Conv2d):
        patches = Patches.apply(values)  # type: ignore[no-untyped-call]
        matrix = weight.permute(0, 3, 4, 2, 1).flatten(1, 3)  # [N, 16 C, O]
        return torch.baddbmm(bias[:, None], patches.flatten(1, 3), matrix).view(*patches.shape[:4], -1)
    matrix = weight.permute(0, 1, 3, 4, 2).flatten(2)  # [N, C, 16 O]
    patches = torch.bmm(values.flatten(1, 3), matrix).view(*values.shape[:4], -1)
    return Images.apply(patches) + bias[:, None, None, None]  # type: ignore[no-untyped-call,no-any-return]


class Training:
    """The joint training of all trials."""

    def __init__(self, trials: list[Trial], images: Tensor, batch: int, dtype: torch.dtype) -> None:
        self.trials, self.images, self.batch, device = trials, images, batch, images.device
        self.stack = Stack([trial.new_model() for trial in trials], device, dtype)
        self.rows = [nn.Parameter(row) for row in self.stack.values.detach()]
        pairs = zip(self.rows, trials, strict=True)
        groups = [{"params": [row], "lr": torch.tensor(trial.lr, device=device)} for row, trial in pairs]
        self.adam = torch.optim.Adam(groups, fused=True, capturable=images.is_cuda)
        self.step = torch.zeros((), device=device)
        self.place = torch.zeros((), dtype=torch.long, device=device)  # in the epoch
        self.order = torch.zeros(len(trials), len(images), dtype=torch.long, device=device)
        self.epoch = -1
        self.gamma, self.capacity, self.anneal, self.power = (
            torch.tensor([getattr(trial, name) for trial in trials], dtype=torch.float32, device=device)
            for name in ("gamma", "capacity", "anneal", "power")
        )
        self.totals = torch.zeros(2, len(trials), device=device)
        self.repeated = Repeated(self.learn, device)

    def learn(self) -> None:
        """Take one step of all models."""
        places = self.place + torch.arange(self.batch, device=self.order.device)
        images = self.images[self.order[:, places]].movedim(2, 4).float().div(255.0)  # [N, B, 64, 64, 1]
        latents = self.stack.models[0].encoder[-1].out_features // 2
        noise = torch.randn(*images.shape[:2], latents, device=images.device)
        error, kl = self.stack.losses(images, noise)
        capacity = (self.step / self.anneal).clamp(max=1.0).pow(self.power) * self.capacity
        self.stack.values.grad = None
        (error + self.gamma * (kl - capacity).abs()).sum().backward()  # type: ignore[no-untyped-call]
        assert self.stack.values.grad is not None
        for row, gradient in zip(self.rows, self.stack.values.grad, strict=True):
            row.grad = gradient
        self.adam.step()
        self.totals.add_(torch.stack([error, kl]).detach())
        self.place.add_(self.batch)
        self.step.add_(1.0)

    def run(self, steps: int) -> None:
        """Take some steps, with the images in the order of each seed."""
        per_epoch = len(self.images) // self.batch
        while steps:
            epoch, done = divmod(int(self.step), per_epoch)
            if epoch != self.epoch:
                self._shuffle(epoch)
                self.place.fill_(done * self.batch)
            taken = min(steps, per_epoch - done)
            self.repeated.run(taken)
            steps -= taken

    def _shuffle(self, epoch: int) -> None:
        orders: dict[int, Tensor] = {}
        for index, trial in enumerate(self.trials):
            if trial.seed not in orders:
                generator = torch.Generator().manual_seed((trial.seed * SHUFFLE + epoch) % 2**63)
                orders[trial.seed] = torch.randperm(len(self.images), generator=generator)
            self.order[index] = orders[trial.seed].to(self.order.device)
        self.epoch = epoch

    def mean_losses(self, steps: int) -> list[list[float]]:
        """Return the mean reconstruction errors and KLs of the last `steps` steps."""
        means: list[list[float]] = (self.totals / steps).cpu().tolist()
        self.totals.zero_()
        return means

    @torch.no_grad()
    def codes(self, images: Tensor) -> Tensor:
        """Return the codes [N, B, D] of images [B, 1, 64, 64] by every model."""
        weights, parts = self.stack.weights(), []
        for part in images.split(250):
            several = part.movedim(1, 3).float().div(255.0).expand(len(self.trials), -1, -1, -1, -1)
            parts.append(self.stack.posterior(several, weights)[0])
        return torch.cat(parts, 1).cpu()


def scores(codes: np.ndarray[Any, Any], factors: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return SNC with its accuracies, and MIG."""
    torch.set_num_threads(1)
    alone = metrics.single_neuron_classification(torch.from_numpy(codes), torch.from_numpy(factors))
    mig = metrics.mutual_information_gap(torch.from_numpy(codes), torch.from_numpy(factors)).score
    return {"SNC": alone.score, "MIG": mig, "accuracy": [round(float(each), 4) for each in alone.accuracy]}


def expand(text: str) -> Iterator[Trial]:
    """Yield a trial for each seed of a table of settings."""
    table = dict(json.loads(text))
    for seed in table.pop("seeds", [0]):
        yield Trial(seed=seed, **table)


def evaluation(count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the images [B, 1, 64, 64] that evidence is scored on, and their varying factors [B, F]."""
    world = worlds.get("dsprites")
    scenes = world.sample(count, seed=9)
    factors = scenes.factors[:, 0]
    varied = [index for index in range(factors.shape[1]) if len(factors[:, index].unique()) > 1]
    return world.render(scenes, 64, device).images[:, :1].clone(), factors[:, varied]


def main() -> None:
    """Train and score all trials."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("trials", nargs="+")
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--every", type=int, default=5_000)
    parser.add_argument("--limit", type=float, default=float("inf"), help="stop at a check after this many seconds")
    parser.add_argument("--images", type=int, default=737_280)
    parser.add_argument("--scored", type=int, default=10_000)
    parser.add_argument("--keep", type=int, nargs="*", default=[], help="steps whose weights are kept")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--precision", choices=("bfloat16", "float32"), default="bfloat16")
    told, began = parser.parse_args(), time.perf_counter()
    told.folder.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    trials = [trial for text in told.trials for trial in expand(text)]
    made = plan("annealed-vae", preset_name="paper", dry_run=False)
    pool = ProcessPoolExecutor(told.workers, mp_context=get_context("spawn"))
    scored, factors = evaluation(told.scored, device)
    started = [pool.submit(scores, np.eye(9)[:, :2], np.eye(9)[:, :2]) for _ in range(told.workers)]
    images = preload(made.scene_set(), told.images, device)["images"]
    print(f"{len(trials)} models, images after {time.perf_counter() - began:.1f} s", flush=True)
    training = Training(trials, images, made.recipe.batch, getattr(torch, told.precision))
    for each in started:
        each.result()
    results: list[tuple[int, Trial, list[float], Future[dict[str, Any]]]] = []
    for step in range(told.every, told.steps + 1, told.every):
        clock = time.perf_counter()
        training.run(told.every)
        means = np.array(training.mean_losses(told.every)).T
        pace = (time.perf_counter() - clock) / told.every
        print(f"step {step}: {1000 * pace:.2f} ms, {time.perf_counter() - began:.1f} s in all", flush=True)
        codes = training.codes(scored).numpy()
        for trial, own, loss in zip(trials, codes, means.tolist(), strict=True):
            results.append((step, trial, loss, pool.submit(scores, own, factors.numpy())))
        if step in told.keep:
            save_file(
                {"values": training.stack.values.detach().half().cpu()}, told.folder / f"weights-{step}.safetensors"
            )
        results = write_scores(told.folder, results, wait=False)
        if time.perf_counter() - began + pace * told.every > told.limit:
            break
    write_scores(told.folder, results, wait=True)
    pool.shutdown()


def write_scores(
    folder: Path, results: list[tuple[int, Trial, list[float], Future[dict[str, Any]]]], wait: bool
) -> list[tuple[int, Trial, list[float], Future[dict[str, Any]]]]:
    """Append the scores that are known to FOLDER/scores.jsonl and return the others."""
    left = []
    with (folder / "scores.jsonl").open("a") as file:
        for step, trial, (error, kl), future in results:
            if not wait and not future.done():
                left.append((step, trial, [error, kl], future))
                continue
            line = {"step": step, **asdict(trial), "reconstruction": error, "kl": kl, **future.result()}
            file.write(json.dumps(line) + "\n")
            if wait or trial.seed == 1:
                print(step, trial.name, trial.seed, round(line["SNC"], 3), round(line["MIG"], 3), line["accuracy"])
    return left


if __name__ == "__main__":
    main()

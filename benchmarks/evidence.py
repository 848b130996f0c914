"""Runs on a GPU that show what the baselines learn; what each found is stored as small JSON and a picture.

    python benchmarks/evidence.py FOLDER [--device cuda] [--steps N] RUN...
    python benchmarks/evidence.py --list

RUN is a name from the list, such as svib/i2i-vit/0.6. Its checkpoints go to FOLDER/runs, what it found to FOLDER. With
`--steps` a run is cut short, and its record says so.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from alebrije import __version__, metrics, worlds
from alebrije.models import Batch
from alebrije.models.state_space import SSMVAE, SSMSlot, StateSpace
from alebrije.train import checkpoints, load_weights
from alebrije.train.check import grouping_scores, prediction_errors
from alebrije.train.checkpoint import step_of
from alebrije.train.options import RunOptions
from alebrije.train.plan import Plan, plan
from alebrije.train.run import run_plan
from alebrije.train.sources import to_float

SVIB = ("i2i-cnn", "i2i-vit", "ssm-vae", "ssm-slot", "svib-oracle")
COLOURS = torch.tensor(
    [[20, 20, 20], [230, 80, 70], [70, 160, 230], [90, 200, 110], [240, 190, 60], [170, 110, 220], [60, 200, 200]]
    + [[250, 140, 40], [230, 120, 180], [160, 160, 160], [120, 90, 60], [200, 230, 120], [90, 90, 200]] * 3,
    dtype=torch.uint8,
)


def runs() -> dict[str, Callable[[], Plan]]:
    """Every run by its name."""
    made: dict[str, Callable[[], Plan]] = {}
    for alpha in (0.6, 0.2):
        for model in SVIB:
            long = alpha == 0.6 and model in ("i2i-vit", "svib-oracle")
            settings = {"steps": 40_000 if long else 20_000} | ({"mixing": 4} if model == "svib-oracle" else {})
            made[f"svib/{model}/{alpha}"] = lambda m=model, a=alpha, s=settings: plan(m, alpha=a, settings=s)  # type: ignore[misc]
        for name, steps in (("long", 40_000), ("longest", 80_000)):
            more = {"steps": steps}
            made[f"svib/ssm-slot-{name}/{alpha}"] = lambda a=alpha, s=more: plan("ssm-slot", alpha=a, settings=s)  # type: ignore[misc]
        # The same plans a second time, for what chance there is without another seed.
        made[f"svib/i2i-vit-again/{alpha}"] = made[f"svib/i2i-vit/{alpha}"]
        made[f"svib/ssm-slot-again/{alpha}"] = made[f"svib/ssm-slot-long/{alpha}"]
        late = {"steps": 40_000, "warmup": 7_500, "half_life": 62_500}  # the recipe of the release, a quarter as long
        made[f"svib/ssm-slot-slow/{alpha}"] = lambda a=alpha, s=late: plan(  # type: ignore[misc]
            "ssm-slot", preset_name="paper", alpha=a, images=0, settings=s
        )
        alone = {"steps": 20_000, "mixing": 0}  # the Oracle of the paper's text, without the release's transformer
        made[f"svib/oracle-unmixed/{alpha}"] = lambda a=alpha, s=alone: plan("svib-oracle", alpha=a, settings=s)  # type: ignore[misc]
        slow = {"steps": 20_000, "warmup": 3_750, "half_life": 31_250}  # the recipe of the release, an eighth as long
        made[f"svib/oracle-slow/{alpha}"] = lambda a=alpha, s=slow: plan(  # type: ignore[misc]
            "svib-oracle", preset_name="paper", alpha=a, images=0, settings=s
        )
    for seed in (0, 1):
        made[f"slots/slot-attention/{seed}"] = lambda s=seed: plan("slot-attention", world="clevr6", seed=s)  # type: ignore[misc]
        for model in ("beta-vae", "beta-tcvae"):
            made[f"neurons/{model}/{seed}"] = lambda m=model, s=seed: plan(m, preset_name="paper", seed=s)  # type: ignore[misc]
    for seed in range(5):
        made[f"neurons/annealed-vae/{seed}"] = lambda s=seed: plan(  # type: ignore[misc]
            "annealed-vae", preset_name="paper", seed=s, settings={"steps": 60_000}
        )
    return made


def imagination(made: Plan, model: nn.Module, device: torch.device) -> tuple[dict[str, Any], Tensor]:
    """Errors on 300 episodes of validation and test, as many as SVIB took, and predictions to look at."""
    found: dict[str, Any] = {}
    rows = []
    for part, name in (("validation", "in-distribution"), ("test", "out-of-distribution")):
        scene_set = made.scene_set(part)  # type: ignore[arg-type]
        batch: Batch = scene_set.render(scene_set.scenes(0, 300), device)
        errors = prediction_errors(model, batch)
        unchanged = (to_float(batch["source"]) - to_float(batch["target"])).square().flatten(1).sum(1)
        found[f"{name} error"] = float(errors.mean())
        found[f"{name} standard error"] = float(errors.std() / len(errors) ** 0.5)
        found[f"{name} error of the source unchanged"] = float(unchanged.mean())
        if isinstance(model, StateSpace):
            found[f"{name} error by part"] = by_part(model, batch)
        few = {key: to_float(tensor[:10]) for key, tensor in batch.items()}
        predicted = model.predict(few)  # type: ignore[operator]
        rows += [few["source"], few["target"], predicted]
    return found, torch.stack(rows)


def by_part(model: StateSpace, batch: Batch) -> dict[str, float]:
    """Where a state-space model errs: what its decoder and its probe draw from right latents and from imagined ones."""
    errors: dict[str, list[Tensor]] = {}
    for first in range(0, len(batch["source"]), 50):
        source, target = (to_float(batch[name][first : first + 50]) for name in ("source", "target"))
        before, after, draw = latents(model, source, target)
        expected = model.dynamics(before)
        drawn = {
            "source, encoded and drawn again": (draw(before), source),
            "target, encoded and drawn again": (draw(after), target),
            "target, imagined and drawn by the encoder's own decoder": (draw(expected), target),
            "target, encoded and drawn by the probe": (model.decoder(after), target),
            "target, imagined and drawn by the probe": (model.decoder(expected), target),
        }
        for name, (image, right) in drawn.items():
            errors.setdefault(name, []).append((image.float().clamp(0, 1) - right).square().flatten(1).sum(1))
    return {name: float(torch.cat(each).mean()) for name, each in errors.items()}


def latents(model: StateSpace, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
    """The latents [B, K, D] of source and target, and what draws images from such."""
    if isinstance(model, SSMSlot):
        before, after = model.encoder(torch.stack((source, target), 1)).unbind(1)
        return before, after, lambda slots: model.encoder.decode(slots)[0]
    assert isinstance(model, SSMVAE)
    before, after = model.encoder(torch.cat((source, target)))[0][:, None].chunk(2)
    return before, after, lambda vector: model.encoder.decode(vector[:, 0])


def grouping(made: Plan, model: nn.Module, device: torch.device) -> tuple[dict[str, Any], Tensor]:
    """ARI, ARP and ARR of 320 images for several numbers of slots, and segmentations to look at."""
    scene_set = made.scene_set("validation")
    frames = worlds.get(made.world).render(scene_set.scenes(0, 320), made.size, device)
    found: dict[str, Any] = {}
    rows = [to_float(frames.images[:10]), painted(frames.masks[:10])]
    for slots in (4, 7, 11, 20):
        scores: list[dict[str, Tensor]] = []
        for first in range(0, 320, 32):
            encoding = model(to_float(frames.images[first : first + 32]), slots=slots)
            assert encoding.masks is not None
            assert encoding.reconstruction is not None
            scores.append(grouping_scores(frames.masks[first : first + 32], encoding.masks))
            if first == 0:
                rows += [encoding.reconstruction[:10], painted(encoding.masks[:10].argmax(1))]
        found[f"{slots} slots"] = {name: float(torch.cat([s[name] for s in scores]).nanmean()) for name in scores[0]}
    return found, torch.stack(rows)


def painted(labels: Tensor) -> Tensor:
    """Labels [B, H, W] as images in 0..1."""
    return COLOURS.to(labels.device)[labels.long()].permute(0, 3, 1, 2) / 255


def neurons(made: Plan, model: nn.Module, device: torch.device) -> tuple[dict[str, Any], Tensor]:
    """MIG, SNC and NK of 30,000 scenes, accuracies by factor, reconstructions, and what each neuron changes."""
    images, factors, varied = _neuron_images(made, 30_000, device)
    codes = codes_of(model, images)
    alone = metrics.single_neuron_classification(codes, factors)
    without = metrics.neuron_knockout(codes, factors, device=str(device))
    accuracies = {
        "one neuron": alone.accuracy,
        "all neurons": without.full_accuracy,
        "all but one": without.knockout_accuracy,
    }
    found: dict[str, Any] = {
        "MIG": metrics.mutual_information_gap(codes, factors).score,
        "SNC": alone.score,
        "NK": without.score,
        "factors": varied,
        "accuracy": {name: [round(float(each), 4) for each in values] for name, values in accuracies.items()},
    }
    return found, neuron_pictures(model, images, codes)


def neuron_pictures(model: nn.Module, images: Tensor, codes: Tensor) -> Tensor:
    """Images, reconstructions, and what each neuron changes. [R, 11, 3, H, W]"""
    rows = [to_float(images[:11]), model(to_float(images[:11])).reconstruction]
    middle = codes[:1].to(images.device)
    for neuron in range(codes.shape[1]):
        steps = middle.repeat(11, 1)
        steps[:, neuron] = torch.linspace(-2.5, 2.5, 11, device=images.device)
        rows.append(model.decode(steps).expand(-1, 3, -1, -1))  # type: ignore[operator]
    return torch.stack(rows)


def _neuron_images(made: Plan, count: int, device: torch.device) -> tuple[Tensor, Tensor, list[str]]:
    """Images of scenes, the factors that vary in them [N, F], and the names of these."""
    world = worlds.get(made.world)
    scenes = world.sample(count, seed=9)
    factors = scenes.factors[:, 0]
    varied = [index for index in range(factors.shape[1]) if len(factors[:, index].unique()) > 1]
    names = [scenes.vocabulary.names[index] for index in varied]
    return world.render(scenes, made.size, device).images, factors[:, varied], names


def codes_of(model: nn.Module, images: Tensor) -> Tensor:
    """The codes of images. [N, D]"""
    return torch.cat([model(to_float(part)).vector for part in images.split(500)]).cpu()


def neurons_over_training(made: Plan, folder: Path, device: torch.device) -> list[dict[str, Any]]:
    """MIG, SNC and its accuracies on 10,000 images after each checkpoint that a run has kept."""
    images, factors, _ = _neuron_images(made, 10_000, device)
    model = made.new_model().to(device).eval()
    rows = []
    for checkpoint in checkpoints(folder):
        load_weights(checkpoint, model)
        codes = codes_of(model, images)
        alone = metrics.single_neuron_classification(codes, factors)
        accuracy = [round(float(each), 4) for each in alone.accuracy]
        mig = metrics.mutual_information_gap(codes, factors).score
        rows.append({"step": step_of(checkpoint), "SNC": alone.score, "MIG": mig, "accuracy": accuracy})
    return rows


FINDERS = {"svib": imagination, "slots": grouping, "neurons": neurons}


def sheet(rows: Tensor, path: Path) -> None:
    """Rows of images [R, N, 3, H, W] in 0..1 as one picture."""
    picture = rows.float().clamp(0, 1).permute(0, 3, 1, 4, 2).flatten(2, 3).flatten(0, 1)  # [R * H, N * W, 3]
    Image.fromarray((picture.cpu().numpy() * 255).round().astype(np.uint8)).save(path, quality=88)


def history(folder: Path) -> list[dict[str, Any]]:
    """Everything that was written down in a run."""
    return [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]


def curve(folder: Path, most: int = 60) -> list[dict[str, float]]:
    """The history of a run: every check, and about `most` of the losses."""
    lines = history(folder)
    checks, losses = [each for each in lines if "lr" not in each], [each for each in lines if "lr" in each]
    kept = losses[:: max(1, len(losses) // most)] + losses[-1:]
    return [
        {name: value if value is None else float(f"{value:.5g}") for name, value in each.items() if name != "seconds"}
        for each in [*checks, *kept]
    ]


def run(name: str, folder: Path, device: torch.device, steps: int | None) -> None:
    """Train one run and write down what it found."""
    made = runs()[name]()
    where = folder / "runs" / name
    every = max(1, made.recipe.steps // 20)
    model = run_plan(
        made,
        where,
        RunOptions(
            device=device,
            workers=torch.get_num_threads(),
            check_every=every,
            save_every=1_000 if name.startswith("neurons/annealed-vae") else max(every // 2, 1_000),
            keep_every=5_000 if name.startswith("neurons/annealed-vae") else 0,
            log_every=100 if made.recipe.steps > 100_000 else 25,
            until=steps,
            step_progress=lambda step, of, speed, losses: (
                print(f"{name} [{step}/{of}] {losses['loss']:.5g} {speed:,.0f} images/s", flush=True)
                if step % every == 0
                else None
            ),
        ),
    )
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        found, rows = FINDERS[name.split("/")[0]](made, model, device)
        if name.startswith("neurons/annealed-vae"):
            found["over training"] = neurons_over_training(made, where, device)
    done = int(checkpoints(where)[-1].name.removeprefix("step-"))
    minutes = sum(line["seconds"] for line in history(where) if "seconds" in line) / 60
    machine = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    record = {
        "run": name,
        "found": found,
        "steps": done,
        "of steps": made.recipe.steps,
        "minutes of training": round(minutes, 2),
        "device": machine,
        "torch": torch.__version__,
        "alebrije": __version__,
        "plan": made.to_json(),
        "history": curve(where),
    }
    stem = name.replace("/", "-")
    (folder / f"{stem}.json").write_text(json.dumps(record, indent=1) + "\n")
    sheet(rows, folder / f"{stem}.jpg")
    print(name, f"{minutes:.1f} minutes", json.dumps(found), flush=True)


def main() -> None:
    """Train the runs that were named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int)
    told = parser.parse_intermixed_args()
    if told.list or told.folder is None:
        print("\n".join(runs()))
        return
    for name in told.runs:
        if name not in runs():
            parser.error(f"there is no run {name}; --list shows them")
    told.folder.mkdir(parents=True, exist_ok=True)
    for name in told.runs:
        run(name, told.folder, torch.device(told.device), told.steps)


if __name__ == "__main__":
    main()

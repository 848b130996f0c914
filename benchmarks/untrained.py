"""Twenty untrained networks, each examined with all instruments.

None may earn more than "no better than its untrained twin".

    python benchmarks/untrained.py [--size small] [--out FOLDER] [--record FILE] [--jobs N] [--device DEVICE]

The record holds every verdict with the scores and differences behind it. The same command continues a run.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from alebrije import __version__, evaluate
from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.instruments import get
from alebrije.report.yardsticks import Comparison, compare_with_yardsticks

TESTS = ("coat", "skill", "fg-ari", "snc")
SEEDS = 5  # of each kind of network
ALLOWED = ("no better than its untrained twin", "no better than the unchanged source image")
ALLOWED += ("no better than chance on hard negatives", "unclear", "chance", "no verdict")


def cnn() -> nn.Module:
    """A convolutional network with 64 numbers per image."""
    layers = [nn.Conv2d(3, 32, 5, 2), nn.ReLU(), nn.Conv2d(32, 64, 5, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 2), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(256, 64))


class ViT(nn.Module):
    """A small vision transformer; its code is the class token. Weights are drawn as in the published one."""

    def __init__(self, size: int = 64, patch: int = 8, width: int = 96) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 4, nn.LayerNorm(width), enable_nested_tensor=False)
        for weight in (self.token, self.positions, *(p for p in self.parameters() if p.ndim == 2)):
            nn.init.trunc_normal_(weight, std=0.02)

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, S, S] -> [B, D]"""
        tokens = self.patches(images).flatten(2).transpose(1, 2)  # [B, N, D]
        tokens = torch.cat([self.token.expand(len(tokens), -1, -1), tokens], 1) + self.positions
        return self.blocks(tokens)[:, 0]


class Slots(nn.Module):
    """A network that divides an image among seven slots: two rounds of attention over features of a convolution."""

    def __init__(self, slots: int = 7, width: int = 48) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 5, padding=2), nn.ReLU(), nn.Conv2d(width, width, 5, padding=2)
        )
        self.norm = nn.LayerNorm(width)
        self.initial = nn.Parameter(torch.randn(1, slots, width))
        self.keys, self.values, self.queries = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.update = nn.GRUCell(width, width)

    def forward(self, images: Tensor) -> Encoding:
        """[B, 3, S, S] -> slots and masks"""
        features = self.norm(self.features(images).flatten(2).transpose(1, 2))  # [B, N, D]
        keys, values = self.keys(features), self.values(features)
        slots = self.initial.expand(len(images), -1, -1)
        for _ in range(2):
            weights = (self.queries(slots) @ keys.transpose(1, 2) * keys.shape[2] ** -0.5).softmax(1)  # [B, K, N]
            updates = weights / weights.sum(2, keepdim=True) @ values
            slots = self.update(updates.flatten(0, 1), slots.flatten(0, 1)).unflatten(0, slots.shape[:2])
        return Encoding(slots=slots, masks=weights.unflatten(2, images.shape[2:]))


class Autoencoder(nn.Module):
    """A convolutional autoencoder with ten latents and orthogonal weights."""

    def __init__(self, size: int = 64, latents: int = 10) -> None:
        super().__init__()
        down = [nn.Conv2d(3, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 4, 2, 1), nn.ReLU(), nn.Flatten()]
        self.encoder = nn.Sequential(*down, nn.Linear(32 * (size // 4) ** 2, latents))
        up = [nn.Linear(latents, 32 * (size // 4) ** 2), nn.ReLU(), nn.Unflatten(1, (32, size // 4, size // 4))]
        up += [nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1)]
        self.decoder = nn.Sequential(*up)
        for weight in self.parameters():
            if weight.ndim > 1:
                nn.init.orthogonal_(weight)

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, S, S] -> [B, L]"""
        return self.encoder(images)

    def decode(self, codes: Tensor) -> Tensor:
        """[B, L] -> [B, 3, S, S]"""
        return self.decoder(codes).sigmoid()


KINDS: dict[str, Callable[[], nn.Module]] = {"cnn": cnn, "vit": ViT, "slots": Slots, "autoencoder": Autoencoder}


def examine(
    name: str, first: int, size: str, out: Path, device: str, alphas: tuple[float, ...]
) -> list[dict[str, Any]]:
    """The verdicts on one network, such as "cnn-3". `first` turns the tests, so that processes render other images."""
    torch.set_num_threads(1)
    kind, _, seed = name.partition("-")
    torch.manual_seed(1000 + int(seed))
    model = KINDS[kind]()
    started = time.perf_counter()
    options: dict[str, Any] = {"size": size, "out": out, "pixels": 64, "device": device, "alphas": alphas}
    tests = (*TESTS[first % len(TESTS) :], *TESTS[: first % len(TESTS)])
    report = evaluate(model, tests, name=name, **options)
    rows = []
    for study, verdict in report.verdicts[name].items():
        instrument = get(study)
        decisive = instrument.decisive(report.requested.of(study, name))
        beside = compare_with_yardsticks(report.requested, decisive, instrument.score)
        known = [one for one in beside if isinstance(one, Comparison)]
        rows.append(
            {
                "model": name,
                "instrument": study,
                "verdict": verdict.word,
                "text": verdict.text,
                "score": decisive[0].known(instrument.score).value if known else None,
                "beside": {
                    one.yardstick: {
                        "score": one.score.value,
                        "difference": one.difference.value,
                        "low": one.difference.low,
                        "high": one.difference.high,
                    }
                    for one in known
                },
                "seconds": time.perf_counter() - started,
            }
        )
    if report.summary.failed:
        raise RuntimeError(f"{name}: {report.summary.failed[0].traceback}")
    return rows


def _verdicts(rows: list[dict[str, Any]]) -> str:
    return "; ".join(row["verdict"] for row in rows)


def main() -> None:
    """Examine all networks and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="small")
    parser.add_argument("--out", type=Path, default=Path("out/untrained"))
    parser.add_argument("--record", type=Path, default=Path("out/untrained.json"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--alphas", type=float, nargs="*", default=(0.6,))
    chosen = parser.parse_args()
    names = [f"{kind}-{seed}" for seed in range(chosen.seeds) for kind in KINDS]
    work = partial(examine, size=chosen.size, out=chosen.out, device=chosen.device, alphas=tuple(chosen.alphas))
    about = {"alebrije": __version__, "torch": torch.__version__, "python": platform.python_version()}
    about |= {"device": chosen.device, "size": chosen.size, "alphas": list(chosen.alphas)}
    chosen.record.parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[dict[str, Any]]] = {}
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("spawn")) as pool:
        slowest_first = sorted(names, key=lambda name: not name.startswith("slots"))
        waiting = {pool.submit(work, name, first): name for first, name in enumerate(slowest_first)}
        for done, future in enumerate(as_completed(waiting), 1):  # the record has what is done, in the usual order
            found[waiting[future]] = future.result()
            print(f"[{done}/{len(names)}] {waiting[future]}: {_verdicts(future.result())}", flush=True)
            rows = [row for name in names for row in found.get(name, [])]
            chosen.record.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")
    earned = [row for row in rows if row["verdict"].removesuffix(" (try-out)") not in ALLOWED]
    print(f"{len(rows)} verdicts on {len(names)} untrained networks; {len(earned)} earn more than they should")
    for row in earned:
        print(f"{row['model']}, {row['instrument']}: {row['verdict']}. {row['text']}")
    if earned:
        raise SystemExit(1)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        raise SystemExit(str(error)) from None

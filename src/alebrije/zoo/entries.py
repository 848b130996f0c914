"""Entries of the zoo: half-precision weights are loaded into a network, and a finished run becomes an entry."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from alebrije.atomic import explain_write_errors, new_folder, remove_folder
from alebrije.data.checked_arrays import check_file, file_record
from alebrije.errors import InputError
from alebrije.train.checkpoint import checkpoints, load_weights, step_of
from alebrije.train.run_folder import read_plan
from alebrije.zoo.cards import CARD, MODELS, WEIGHTS, Card, Training, card

# parts that only training uses, by the model that has them
TRAINING_ONLY: Mapping[str, tuple[str, ...]] = {
    "factor-vae": ("discriminator.",),
    "moco": ("key_encoder.", "key_head.", "queue", "pointer"),
}


def load(name: str, folder: Path = MODELS) -> nn.Module:
    """The network of a model of the zoo, in eval mode on the CPU; its weights are float32 again.

    It takes images [B, 3, S, S] in 0..1 of the size S that it was trained on. Parts that only training uses, such as
    the discriminator of a FactorVAE, are not kept and have their initial weights.

    >>> import torch
    >>> load("annealed-vae")(torch.rand(2, 3, 64, 64)).vector.shape
    torch.Size([2, 10])
    """
    entry = card(name, folder)
    path = folder / name / WEIGHTS
    check_file(path, entry.weights)
    try:
        stored = load_file(path)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: is no file of weights ({error})") from None
    model = entry.read_plan().new_model()
    fitted = {key: value.float() if value.is_floating_point() else value for key, value in stored.items()}
    try:
        missing, unexpected = model.load_state_dict(fitted, strict=False)
    except RuntimeError:
        raise InputError(f"{path}: holds weights of other shapes than those of {entry.title}") from None
    wanted = [key for key in missing if not _only_for_training(str(entry.plan["model"]), key)]
    if wanted or unexpected:
        raise InputError(f"{path}: holds the weights of another model than {entry.title}: {[*wanted, *unexpected][0]}")
    return model.eval()


def add_run(
    run: Path,
    name: str,
    command: str,
    *,
    minutes: float | None = None,
    machine: str = "",
    commit: str | None = None,
    note: str = "",
    folder: Path = MODELS,
) -> Card:
    """Make an entry of the zoo from the last checkpoint of a run; an entry of that name is replaced.

    `machine` is where the run took place, and `minutes` what it took there.
    """
    plan, saved = read_plan(run), checkpoints(run)
    if not saved:
        raise InputError(f"{run}: the run has no checkpoint yet")
    model = plan.new_model()
    load_weights(saved[-1], model)
    kept = halved({k: v for k, v in model.state_dict().items() if not _only_for_training(plan.model, k)})
    stored = plan.to_json()
    training = Training(
        command=command,
        steps=step_of(saved[-1]),
        minutes=minutes,
        machine=machine,
        commit=commit,
    )
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / name).exists():
            remove_folder(folder / name)
        with new_folder(folder / name) as part:
            save_file(kept, part / WEIGHTS)
            made = Card(name=name, plan=stored, weights=file_record(part / WEIGHTS), training=training, note=note)
            (part / CARD).write_text(made.model_dump_json(indent=2) + "\n")
    return made


def halved(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights in half precision; an InputError if one is too large for it."""
    half = {name: value.half() if value.is_floating_point() else value for name, value in weights.items()}
    for name, value in half.items():
        if value.is_floating_point() and not bool(value.isfinite().all()):
            raise InputError(f"the weight {name} has values that half precision cannot hold")
    return {name: value.contiguous().clone() for name, value in half.items()}


def _only_for_training(model: str, key: str) -> bool:
    return key.startswith(TRAINING_ONLY.get(model, ()))

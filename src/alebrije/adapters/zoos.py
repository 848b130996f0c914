"""Zoos: models by their name in timm or on the Hugging Face hub. Neither is needed unless one is named."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from alebrije.adapters.preprocessing import Preprocessing
from alebrije.errors import InputError
from alebrije.named import first_line, nearest
from alebrije.seeding import seeded

_PATIENCE = 5  # seconds for the hub to answer at all


def from_timm(name: str, *, pretrained: bool = True, seed: int = 0) -> tuple[nn.Module, Preprocessing]:
    """A model of timm without its classifier, and the size and normalisation that its weights were made for.

    The code is the pooled feature vector that the classifier would see (``num_classes=0``). Without `pretrained` the
    weights are drawn from `seed` and nothing is downloaded. timm crops a part of the images it resizes; here the scene
    is seen whole.
    """
    timm = _imported("timm", f"timm:{name}")
    with seeded(seed):
        try:
            model: nn.Module = timm.create_model(name, pretrained=pretrained, num_classes=0)
        except Exception as error:
            known = list(timm.list_models())
            if name.partition(".")[0] not in known and ":" not in name and "/" not in name:
                raise InputError(f"timm has no model {name!r}{nearest(name, known)}") from None
            raise InputError(f"timm:{name} could not be made: {first_line(error)}") from error
    told = timm.data.resolve_model_data_config(model)
    return model, Preprocessing(int(told["input_size"][-1]), _colours(told["mean"]), _colours(told["std"]))


def from_hub(
    name: str, *, pretrained: bool = True, seed: int = 0, revision: str | None = None
) -> tuple[Any, Preprocessing]:
    """A model of the Hugging Face hub, or of a folder in its format, and what its image processor says.

    The code is the pooled output, or the mean over the last hidden state where there is none or where its weights are
    not in the file and would be random. Models of images and text give what `get_image_features` gives. Code that
    comes with a model is never run, and weights are read from safetensors alone.
    """
    transformers = _imported("transformers", f"hf:{name}")
    asked: dict[str, Any] = {"trust_remote_code": False, **({"revision": revision} if revision else {})}
    trouble = None if Path(name).is_dir() else _hub_trouble()
    if trouble is not None:
        asked["local_files_only"] = True  # what was downloaded before can still be used
    try:
        processor = transformers.AutoImageProcessor.from_pretrained(name, **asked)
        if pretrained:
            model, loaded = transformers.AutoModel.from_pretrained(
                name, use_safetensors=True, output_loading_info=True, **asked
            )
            missing = sorted(loaded.get("missing_keys", ()))
        else:
            with seeded(seed):
                model = transformers.AutoModel.from_config(transformers.AutoConfig.from_pretrained(name, **asked))
            missing = []
    except Exception as error:
        if isinstance(error, OSError) and trouble is not None:
            raise InputError(f"hf:{name} was not downloaded to this machine before, and {trouble}") from error
        raise InputError(f"hf:{name} could not be made: {first_line(error)}") from error
    if strange := [key for key in missing if "pooler" not in key]:
        raise InputError(f"hf:{name} lacks the weights {strange[0]!r}, which would be random")
    return partial(_image_codes, model, bool(missing)), _of_processor(processor)


def _hub_trouble() -> str | None:
    """Why the hub cannot be asked, None where it can: without a network each file would be tried for half a minute."""
    try:
        address = str(import_module("huggingface_hub.constants").ENDPOINT)
        ask = import_module("huggingface_hub.utils").get_session().head
    except (ImportError, AttributeError):  # another version, which is left to itself
        return None
    try:
        ask(address, timeout=_PATIENCE)
    except Exception as error:  # of two libraries that it may use, or its own where it is told to be offline
        return f"{address} cannot be reached: {first_line(error)}"
    return None


def _image_codes(model: Any, pooler_is_random: bool, images: Tensor) -> Any:
    """The pooled output of a model of transformers."""
    if hasattr(model, "get_image_features"):
        return model.get_image_features(pixel_values=images)
    output = model(pixel_values=images)
    if pooler_is_random or getattr(output, "pooler_output", None) is None:
        return {"last_hidden_state": output.last_hidden_state}
    return {"pooler_output": output.pooler_output}


def _of_processor(processor: object) -> Preprocessing:
    """Size and normalisation of an image processor; images in 0..1 stand for its bytes."""

    def told(name: str, otherwise: Any = None) -> Any:
        value = getattr(processor, name, None)
        return otherwise if value is None else value

    size = None
    if told("do_resize", True):
        crop = told("crop_size") if told("do_center_crop", False) else None
        size = _side(crop) or _side(told("size"))
    # bytes times the factor are what the mean is of, so mean and deviation are brought to 0..1
    scale = 255 * told("rescale_factor", 1 / 255) if told("do_rescale", True) else 255
    if not told("do_normalize", True) or told("image_mean") is None:
        return Preprocessing(size, None, None if abs(scale - 1) < 1e-6 else (1 / scale,) * 3)
    mean, std = (_colours(told(name)) for name in ("image_mean", "image_std"))
    return Preprocessing(size, tuple(one / scale for one in mean), tuple(one / scale for one in std))


def _side(size: Any) -> int | None:
    """Pixels a side, of the many ways in which processors write it."""
    if size is None or isinstance(size, int):
        return size
    sizes = dict(size) if isinstance(size, Mapping) else dict(vars(size))
    found = [sizes[name] for name in ("height", "shortest_edge", "longest_edge") if sizes.get(name)]
    return int(found[0]) if found else None


def _colours(values: Any) -> tuple[float, ...]:
    numbers = tuple(float(value) for value in values)
    return numbers * 3 if len(numbers) == 1 else numbers


def _imported(package: str, spec: str) -> Any:
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        missing = (error.name or package).partition(".")[0]
        if missing == package:
            raise InputError(
                f"{spec} needs {package}, which is not installed: pip install 'alebrije[{package}]'"
            ) from None
        raise InputError(f"{spec} needs {missing}, which is not installed but {package} asks for") from None
    except Exception as error:  # a torchvision built for another torch fails in many ways
        raise InputError(f"{spec} needs {package}, which cannot be imported: {first_line(error)}") from error

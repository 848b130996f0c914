"""Hubs: pretrained models by their name in timm or on the Hugging Face hub. Both packages are optional."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from alebrije.adapters.preprocessing import Preprocessing
from alebrije.errors import InputError
from alebrije.imports import first_line
from alebrije.seeding import seeded
from alebrije.suggest import did_you_mean

_TIMEOUT = 5  # seconds for the hub's first response


def load_timm(name: str, *, pretrained: bool = True, seed: int = 0) -> tuple[Any, Preprocessing]:
    """Load a timm model without its classifier, and the size and normalisation that its weights were trained with.

    The code is the pooled feature vector before the classifier (``num_classes=0``); the features before pooling are its
    tokens. Without `pretrained` the weights are sampled with `seed` and nothing is downloaded. timm crops images after
    resizing; alebrije shows the whole scene.
    """
    timm = _import_optional("timm", f"timm:{name}")
    with seeded(seed):
        try:
            model: nn.Module = timm.create_model(name, pretrained=pretrained, num_classes=0)
        except Exception as error:
            known = list(timm.list_models())
            if name.partition(".")[0] not in known and ":" not in name and "/" not in name:
                raise InputError(f"timm has no model {name!r}{did_you_mean(name, known)}") from None
            raise InputError(f"timm:{name} could not be loaded: {first_line(error)}") from error
    config = timm.data.resolve_model_data_config(model)
    mean, std = (_per_channel(config[name]) for name in ("mean", "std"))
    whole = all(callable(getattr(model, name, None)) for name in ("forward_features", "forward_head"))
    codes = partial(_timm_codes, model) if whole else model
    return codes, Preprocessing(int(config["input_size"][-1]), mean, std)


def load_hugging_face(
    name: str, *, pretrained: bool = True, seed: int = 0, revision: str | None = None
) -> tuple[Any, Preprocessing]:
    """Load a model of the Hugging Face hub, or of a folder in its format, and the settings of its image processor.

    The code is the pooled output. It is the mean over the last hidden state if there is no pooled output, or if the
    file has no weights for it and they would be random. Models of images and text use `get_image_features`. Code that
    comes with a model is never run, and weights are only read from safetensors.
    """
    transformers = _import_optional("transformers", f"hf:{name}")
    options: dict[str, Any] = {"trust_remote_code": False, **({"revision": revision} if revision else {})}
    hub_error = None if Path(name).is_dir() else _hub_error()
    if hub_error is not None:
        options["local_files_only"] = True  # earlier downloads still work
    processor = None
    try:
        if not Path(name).is_dir() or has_processor(Path(name)):
            processor = transformers.AutoImageProcessor.from_pretrained(name, **options)
        if pretrained:
            model, loading_info = transformers.AutoModel.from_pretrained(
                name, use_safetensors=True, output_loading_info=True, **options
            )
            missing = sorted(loading_info.get("missing_keys", ()))
        else:
            with seeded(seed):
                model = transformers.AutoModel.from_config(transformers.AutoConfig.from_pretrained(name, **options))
            missing = []
    except Exception as error:
        if isinstance(error, OSError) and hub_error is not None:
            raise InputError(f"hf:{name} is not on this machine, and {hub_error}") from error
        raise InputError(f"hf:{name} could not be loaded: {first_line(error)}") from error
    if required := [key for key in missing if "pooler" not in key]:
        raise InputError(f"hf:{name} lacks the weights {required[0]!r}, which would be random")
    codes = partial(_image_codes, model, bool(missing))
    if processor is None:
        side = getattr(model.config, "image_size", None)
        return codes, Preprocessing(side if isinstance(side, int) else None)
    return codes, _processor_preprocessing(processor)


def has_processor(folder: Path) -> bool:
    """Whether a folder says how images are prepared for its model."""
    return any((folder / name).is_file() for name in ("preprocessor_config.json", "processor_config.json"))


def _timm_codes(model: Any, images: Tensor) -> Any:
    """The pooled output of a timm model, and the features that it pools."""
    features = model.forward_features(images)
    codes = model.forward_head(features)
    if isinstance(features, Tensor) and features.ndim == 4 and getattr(model, "output_fmt", "NCHW") == "NHWC":
        features = features.permute(0, 3, 1, 2)
    return {"vector": codes, "tokens": features} if isinstance(features, Tensor) else codes


def _hub_error() -> str | None:
    """Why the hub cannot be reached, or None; without this, transformers retries every file for half a minute."""
    try:
        address = str(import_module("huggingface_hub.constants").ENDPOINT)
        head = import_module("huggingface_hub.utils").get_session().head
    except (ImportError, AttributeError):  # an unknown version: let transformers try
        return None
    try:
        head(address, timeout=_TIMEOUT)
    except Exception as error:  # from requests, httpx, or huggingface_hub in offline mode
        return f"{address} cannot be reached: {first_line(error)}"
    return None


def _image_codes(model: Any, pooler_is_random: bool, images: Tensor) -> Any:
    """The pooled output of a transformers model, and its tokens."""
    if hasattr(model, "get_image_features"):
        return _features_and_tokens(model, images)
    output = model(pixel_values=images)
    tokens = {"last_hidden_state": output.last_hidden_state}
    if pooler_is_random or getattr(output, "pooler_output", None) is None:
        return tokens
    return {"pooler_output": output.pooler_output, **tokens}


def _features_and_tokens(model: Any, images: Tensor) -> Any:
    """The features of a model of images and text, and the tokens of its image tower if it has one."""
    tower, outputs = getattr(model, "vision_model", None), list[Any]()
    if not isinstance(tower, nn.Module):
        return model.get_image_features(pixel_values=images)
    hook = tower.register_forward_hook(lambda *arguments: outputs.append(arguments[-1]))
    try:
        features = model.get_image_features(pixel_values=images)
    finally:
        hook.remove()
    tokens = getattr(outputs[-1], "last_hidden_state", None) if outputs else None
    if not isinstance(features, Tensor) or tokens is None:
        return features
    return {"image_embeds": features, "last_hidden_state": tokens}


def _processor_preprocessing(processor: object) -> Preprocessing:
    """The size and normalisation of an image processor, converted to images in 0..1."""

    def setting(name: str, default: Any = None) -> Any:
        value = getattr(processor, name, None)
        return default if value is None else value

    size = None
    if setting("do_resize", True):
        crop = setting("crop_size") if setting("do_center_crop", False) else None
        size = _side(crop) or _side(setting("size"))
    # the mean and std of a processor apply to uint8 values times its factor; ours apply to 0..1
    scale = 255 * setting("rescale_factor", 1 / 255) if setting("do_rescale", True) else 255
    if not setting("do_normalize", True) or setting("image_mean") is None:
        return Preprocessing(size, None, None if abs(scale - 1) < 1e-6 else (1 / scale,) * 3)
    mean, std = (_per_channel(setting(name)) for name in ("image_mean", "image_std"))
    return Preprocessing(size, tuple(value / scale for value in mean), tuple(value / scale for value in std))


def _side(size: Any) -> int | None:
    """Pixels a side, from any of the formats that processors use."""
    if size is None or isinstance(size, int):
        return size
    sizes = dict(size) if isinstance(size, Mapping) else dict(vars(size))
    return next((int(sizes[name]) for name in ("height", "shortest_edge", "longest_edge") if sizes.get(name)), None)


def _per_channel(values: Any) -> tuple[float, ...]:
    numbers = tuple(float(value) for value in values)
    return numbers * 3 if len(numbers) == 1 else numbers


def _import_optional(package: str, spec: str) -> Any:
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        missing = (error.name or package).partition(".")[0]
        if missing == package:
            raise InputError(
                f"{spec} needs {package}, which is not installed: pip install 'alebrije[{package}]'"
            ) from None
        raise InputError(f"{spec} needs {missing}, which {package} requires and which is not installed") from None
    except Exception as error:  # for example a torchvision built for another torch
        raise InputError(f"{spec} needs {package}, which cannot be imported: {first_line(error)}") from error

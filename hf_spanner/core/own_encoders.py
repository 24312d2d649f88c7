"""Encoders with code of their own: their classes are known by name, and their source goes into the saved model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from transformers import AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.dynamic_module_utils import get_class_from_dynamic_module
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_MAPPING

from hf_spanner.core.checkpoint_weights import DOWNLOAD_ARGUMENTS
from hf_spanner.core.shipped_encoder import OWN_CLASSES

# Configurations by model type and class name. They are not registered with AutoConfig, where a name that the library
# has too would stand for another class in the whole process.
OWN_CONFIGS: dict[tuple[str, str], type[PreTrainedConfig]] = {}


def register_encoder(config_class: type[PreTrainedConfig], model_class: type[PreTrainedModel]) -> None:
    """Make the classes of an encoder known to the configurations that name them."""
    OWN_CONFIGS[config_class.model_type, config_class.__name__] = config_class
    AutoModel.register(config_class, cast(Any, model_class), exist_ok=True)


if OWN_CLASSES is not None:
    register_encoder(*OWN_CLASSES)


def own_classes(config: PreTrainedConfig) -> tuple[type[PreTrainedConfig], type[PreTrainedModel]] | None:
    """Configuration and model class of an encoder that the library does not have; None where it has them."""
    config_class = type(config)
    if OWN_CONFIGS.get((config_class.model_type, config_class.__name__)) is not config_class:
        return None
    return config_class, cast(type[PreTrainedModel], MODEL_MAPPING[config_class])


def named_config(values: dict[str, Any]) -> dict[str, Any] | PreTrainedConfig:
    """The configuration that saved values are of where its class is not the library's, or else the values themselves.

    Raises:
        ValueError: If no such class is known.
    """
    kind = values.get("model_type")
    own_class = OWN_CONFIGS.get((str(kind), class_name(values)))
    if own_class is not None:
        return own_class.from_dict(values)
    if kind is not None and kind not in CONFIG_MAPPING:
        raise ValueError(
            f"encoder_config: no class is known for the model type {kind!r}; where its code lies in the saved model, "
            "from_pretrained of the model's own class runs it with trust_remote_code=True, and the commands with "
            "--trust-remote-code; an encoder of your own is registered with AutoConfig.register and AutoModel.register"
        )
    return values


def register_saved_encoder(source: str | Path, arguments: Mapping[str, Any]) -> None:
    """Run the code of the encoder that lies in a saved model, if there is some, and make its classes known.

    Args:
        source: Folder or Hub name of the model.
        arguments: How its files are found, such as `revision`.
    """
    download = {name: value for name, value in arguments.items() if name in DOWNLOAD_ARGUMENTS}
    values, _ = PreTrainedConfig.get_config_dict(source, **download)
    if class_name(values.get("encoder_config") or {}):
        classes = get_class_from_dynamic_module("shipped_encoder.OWN_CLASSES", str(source), **download)
        if classes is not None:
            register_encoder(*cast(tuple, classes))


def class_name(values: Mapping[str, Any]) -> str:
    """Name of the class beside the library's own that the values of a configuration belong to; "" if it names none."""
    return str((values.get("auto_map") or {}).get("AutoConfig", "")).rpartition(".")[2]


def shipped_encoder(config_class: type, model_class: type) -> str:
    """The source that stands in a saved model for `shipped_encoder.py`."""
    (config_module, model_module) = (kind.__module__.rpartition(".")[2] for kind in (config_class, model_class))
    return (
        '"""The classes of the encoder, whose code lies beside this file."""\n\n'
        f"from .{config_module} import {config_class.__name__}\n"
        f"from .{model_module} import {model_class.__name__}\n\n"
        f"OWN_CLASSES = ({config_class.__name__}, {model_class.__name__})\n"
    )

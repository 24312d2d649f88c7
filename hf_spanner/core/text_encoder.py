"""The encoder of a configuration: which class it has, how it is made, and how pretrained weights are loaded into it."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel
from transformers.dynamic_module_utils import get_class_from_dynamic_module
from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING, MODEL_MAPPING

from hf_spanner.core.checkpoint_weights import DOWNLOAD_ARGUMENTS, check_kinds, refuse_unfit, saved_weights
from hf_spanner.core.own_encoders import register_encoder

# How the files of an encoder are found, its configuration, tokenizer and weights alike.
SOURCE_ARGUMENTS = ("cache_dir", "local_files_only", "revision", "token", "trust_remote_code")
REQUIRED_FIELDS = ("hidden_size", "num_hidden_layers", "vocab_size")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def encoder_class(config: PreTrainedConfig) -> type[PreTrainedModel]:
    """The class that `AutoModel` has for a configuration; of an encoder-decoder, where there is one, its encoder's.

    Raises:
        ValueError: If there is no class, or it does not read text as token ids and their mask.
    """
    kind, name = type(config), config.model_type
    if kind not in MODEL_MAPPING:
        raise ValueError(
            f"encoder_config: AutoModel knows no model of the type {name!r}; an encoder of your own is registered with "
            "AutoConfig.register and AutoModel.register, or loaded with trust_remote_code, before it is used"
        )
    missing = [field for field in REQUIRED_FIELDS if not hasattr(config, field)]
    if missing:
        raise ValueError(
            f"encoder_config: a text encoder must state {', '.join(REQUIRED_FIELDS)}, and the model type {name!r} "
            f"has no {', '.join(missing)}"
        )
    is_split = kind.is_encoder_decoder and kind in MODEL_FOR_TEXT_ENCODING_MAPPING
    found = (MODEL_FOR_TEXT_ENCODING_MAPPING if is_split else MODEL_MAPPING)[kind]
    model_class = cast(type[PreTrainedModel], found[0] if isinstance(found, tuple) else found)
    parameters = inspect.signature(model_class.forward).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if "input_ids" not in parameters or not (takes_any or "attention_mask" in parameters):
        raise ValueError(
            "encoder_config: a text encoder must read input_ids and attention_mask, and the model type "
            f"{name!r} reads {', '.join(list(parameters)[1:4])} ..."
        )
    return model_class


def new_encoder(config: PreTrainedConfig) -> PreTrainedModel:
    """An encoder with random weights, in the default dtype; a decoder keeps no cache of what it has read.

    Most keep this very configuration as their own; some that belong to an encoder-decoder change a copy.
    """
    model_class = encoder_class(config)
    if "use_cache" in vars(config):
        config.use_cache = False
    return encoder_alone(model_class(config, **pooler_arguments(model_class)))


def encoder_alone(model: PreTrainedModel) -> PreTrainedModel:
    """The model itself, or of an encoder-decoder such as BART the encoder.

    Raises:
        ValueError: If the encoder is no model of the library by itself.
    """
    if not type(model.config).is_encoder_decoder or type(model) is not MODEL_MAPPING[type(model.config)]:
        return model
    encoder = model.get_encoder()
    if not isinstance(encoder, PreTrainedModel):
        raise ValueError(f"encoder_config: {type(model).__name__} has no encoder that can be taken out of it")
    return encoder


def pooler_arguments(model_class: type[PreTrainedModel]) -> dict[str, bool]:
    """`add_pooling_layer=False` where the encoder's class takes it: the pooler would be a parameter without a use."""
    parameters = inspect.signature(model_class.__init__).parameters
    return {"add_pooling_layer": False} if "add_pooling_layer" in parameters else {}


def load_encoder_config(source: str | Path, arguments: Mapping[str, Any]) -> PreTrainedConfig:
    """The configuration of a pretrained encoder.

    Args:
        source: Folder or Hub name.
        arguments: Those of `SOURCE_ARGUMENTS`. With `trust_remote_code` the class of an encoder whose code lies beside
            its weights is fetched and registered, so that it can be made.

    Raises:
        ValueError: If only the model has code of its own, and its configuration is one of the library's.
    """
    config = AutoConfig.from_pretrained(source, **arguments)
    reference = (vars(config).pop("auto_map", None) or {}).get("AutoModel")
    if not arguments.get("trust_remote_code") or reference is None:
        return config
    if type(config).__module__.startswith("transformers."):
        raise ValueError(
            f"trust_remote_code must be left out for {source}: the library has the configuration {config.model_type!r} "
            f"of its encoder, and {reference} would take the place of the library's own class"
        )
    download = {name: value for name, value in arguments.items() if name in DOWNLOAD_ARGUMENTS}
    model_class = cast(Any, get_class_from_dynamic_module(reference, str(source), **download))
    register_encoder(type(config), model_class)
    config.auto_map = {"AutoConfig": f"shipped_encoder.{type(config).__name__}"}  # by which a saved model names it
    return config


def load_encoder(
    source: str | Path, config: PreTrainedConfig, dtype: str | torch.dtype | None, arguments: Mapping[str, Any]
) -> PreTrainedModel:
    """A pretrained encoder; only safetensors are read, and its weights must fit as those of a saved model must.

    Args:
        source: Folder or Hub name.
        config: Its configuration, of which the encoder gets a copy.
        dtype: Type of its weights, see `float_type`.
        arguments: Those of `SOURCE_ARGUMENTS`.

    Raises:
        ValueError: If weights are missing, misshapen, of another kind of number or not the encoder's; a pooler may be
            missing, and heads of other tasks may be there.
    """
    download = {name: value for name, value in arguments.items() if name in DOWNLOAD_ARGUMENTS}
    model_class = encoder_class(config)
    try:
        loaded = model_class.from_pretrained(
            source,
            config=config,
            dtype=float_type(dtype),
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # these are refused by name
            **pooler_arguments(model_class),
            **download,
        )
    except Exception as error:
        error.add_note(f"while loading the encoder {source}")
        raise
    model, info = cast(tuple[PreTrainedModel, dict[str, Any]], loaded)
    refuse_unfit(model, source, info)
    check_kinds(model, source, saved_weights(source, download, vars(config).get("transformers_weights")))
    encoder = encoder_alone(model)
    check_reading(encoder)
    encoder.config.name_or_path = config.name_or_path  # a path of this machine is cleared there
    return encoder


def prompt_size(encoder: PreTrainedModel) -> int:
    """The width of the vectors that an encoder takes in place of token ids.

    Raises:
        ValueError: If it takes none.
    """
    if "inputs_embeds" in inspect.signature(type(encoder).forward).parameters:
        table = encoder.get_input_embeddings()
        if isinstance(table, nn.Embedding):
            return table.embedding_dim
    raise ValueError(f"{NO_PROMPTS} {type(encoder).__name__}, which takes no plain vectors in place of token ids")


@torch.no_grad()
def check_reading_vectors(encoder: PreTrainedModel) -> None:
    """Let an encoder read three vectors in place of tokens; a ValueError if it cannot."""
    vectors = torch.zeros(1, 3, prompt_size(encoder), dtype=encoder.dtype, device=encoder.device)
    try:
        encoder(inputs_embeds=vectors, attention_mask=torch.ones(1, 3, dtype=torch.long, device=encoder.device))
    except Exception as error:
        raise ValueError(f"{NO_PROMPTS} {type(encoder).__name__}, which reads no vectors alone: {error}") from error


NO_PROMPTS = "has_type_inputs, with which the types' vectors are read before the tokens, must be False with"


@torch.no_grad()
def check_reading(encoder: PreTrainedModel) -> None:
    """Let an encoder read three tokens, as it will read texts.

    Raises:
        ValueError: If it cannot, as one that also wants boxes or pictures, or does not give one vector for each token.
    """
    kind, ids = type(encoder).__name__, torch.zeros(1, 3, dtype=torch.long, device=encoder.device)
    try:
        output = encoder(input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=True)
    except Exception as error:
        raise ValueError(f"{kind} does not read token ids and their mask alone: {error}") from error
    states = output.get("last_hidden_state")
    shape = None if states is None else tuple(states.shape)
    if shape != (1, 3, encoder.config.hidden_size):
        raise ValueError(
            f"{kind} must give last_hidden_state with hidden_size = {encoder.config.hidden_size} numbers for each "
            f"token, got {'none' if shape is None else f'the shape {shape} for 3 tokens'}"
        )


def float_type(dtype: str | torch.dtype | None) -> str | torch.dtype:
    """The float type that was asked for by name or as itself: float32 for None, "auto" for the one of the files.

    Raises:
        ValueError: If it is none of these.
    """
    if dtype is None:
        return torch.float32
    if isinstance(dtype, str) and dtype in DTYPES:
        return DTYPES[dtype]
    if dtype != "auto" and dtype not in DTYPES.values():
        raise ValueError(f"dtype must be auto or one of {', '.join(DTYPES)}, got {dtype!r}")
    return dtype

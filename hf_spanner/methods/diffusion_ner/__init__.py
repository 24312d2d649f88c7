"""DiffusionNER (Shen et al. 2023): random boundaries are denoised into entities."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hf_spanner.methods.diffusion_ner.configuration_diffusion_ner import DiffusionNERConfig
from hf_spanner.methods.diffusion_ner.modeling_diffusion_ner import DiffusionNERModel

if TYPE_CHECKING:
    from hf_spanner.methods.diffusion_ner.trainer_diffusion_ner import (
        DiffusionNERTrainer,
        DiffusionNERTrainingArguments,
    )

__all__ = ["DiffusionNERConfig", "DiffusionNERModel", "DiffusionNERTrainer", "DiffusionNERTrainingArguments"]


def __getattr__(name: str) -> Any:
    """What trains the model, imported on first use, since no checkpoint needs it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(import_module(f"{__name__}.trainer_diffusion_ner"))[name]

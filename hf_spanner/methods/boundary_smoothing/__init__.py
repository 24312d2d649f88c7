"""Boundary Smoothing (Zhu and Li 2022): biaffine span scores, smoothed targets."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hf_spanner.methods.boundary_smoothing.configuration_boundary_smoothing import BoundarySmoothingConfig
from hf_spanner.methods.boundary_smoothing.modeling_boundary_smoothing import BoundarySmoothingModel

if TYPE_CHECKING:
    from hf_spanner.methods.boundary_smoothing.trainer_boundary_smoothing import (
        BoundarySmoothingTrainer,
        BoundarySmoothingTrainingArguments,
    )

__all__ = [
    "BoundarySmoothingConfig",
    "BoundarySmoothingModel",
    "BoundarySmoothingTrainer",
    "BoundarySmoothingTrainingArguments",
]


def __getattr__(name: str) -> Any:
    """What trains the model, imported on first use, since no checkpoint needs it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(import_module(f"{__name__}.trainer_boundary_smoothing"))[name]

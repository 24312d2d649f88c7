"""Locate and Label (Shen et al. 2021): filter seed spans, move their boundaries, then classify."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hf_spanner.methods.locate_and_label.configuration_locate_and_label import LocateAndLabelConfig
from hf_spanner.methods.locate_and_label.modeling_locate_and_label import LocateAndLabelModel

if TYPE_CHECKING:
    from hf_spanner.methods.locate_and_label.trainer_locate_and_label import (
        LocateAndLabelTrainer,
        LocateAndLabelTrainingArguments,
    )

__all__ = ["LocateAndLabelConfig", "LocateAndLabelModel", "LocateAndLabelTrainer", "LocateAndLabelTrainingArguments"]


def __getattr__(name: str) -> Any:
    """What trains the model, imported on first use, since no checkpoint needs it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(import_module(f"{__name__}.trainer_locate_and_label"))[name]

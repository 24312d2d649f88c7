"""BOPN (Tang et al. 2023): every span predicts its offset to a near entity of each type."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hf_spanner.methods.bopn.configuration_bopn import BOPNConfig
from hf_spanner.methods.bopn.modeling_bopn import BOPNModel

if TYPE_CHECKING:
    from hf_spanner.methods.bopn.trainer_bopn import BOPNTrainer, BOPNTrainingArguments

__all__ = ["BOPNConfig", "BOPNModel", "BOPNTrainer", "BOPNTrainingArguments"]


def __getattr__(name: str) -> Any:
    """What trains the model, imported on first use, since no checkpoint needs it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(import_module(f"{__name__}.trainer_bopn"))[name]

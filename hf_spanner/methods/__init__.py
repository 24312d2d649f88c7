"""The registration table of methods: one name, one model class."""

from importlib import import_module

from hf_spanner.core.modeling_span_ner import SpanNERModel
from hf_spanner.methods.bopn import BOPNModel
from hf_spanner.methods.boundary_smoothing import BoundarySmoothingModel
from hf_spanner.methods.diffusion_ner import DiffusionNERModel
from hf_spanner.methods.locate_and_label import LocateAndLabelModel

METHODS: dict[str, type[SpanNERModel]] = {
    "bopn": BOPNModel,
    "boundary_smoothing": BoundarySmoothingModel,
    "diffusion_ner": DiffusionNERModel,
    "locate_and_label": LocateAndLabelModel,
}


def trainer_of(name: str) -> type:
    """The Trainer class of a method, imported only when it is asked for, since no checkpoint needs it."""
    return _trainer_class(name, "Trainer")


def training_arguments_of(name: str) -> type:
    """The class of a method's training arguments, whose defaults are the paper's recipe."""
    return _trainer_class(name, "TrainingArguments")


def _trainer_class(name: str, kind: str) -> type:
    if name not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {name!r}")
    module = import_module(f"hf_spanner.methods.{name}.trainer_{name}")
    return vars(module)[METHODS[name].__name__.removesuffix("Model") + kind]

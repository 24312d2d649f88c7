"""Span-based named entity recognition: flat and nested entities, with confidences that mean what they say.

Importing the package registers its models and the pipeline task `span-ner` with transformers, whose registries want
classes. What reads data or trains is imported when its name is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from transformers import AutoConfig, AutoModel
from transformers.pipelines import PIPELINE_REGISTRY

from hf_spanner.core.configuration_span_ner import VERSION, SpanNERConfig
from hf_spanner.core.modeling_span_ner import SpanNERModel, SpanNEROutput
from hf_spanner.core.pipeline_span_ner import SpanNERPipeline
from hf_spanner.core.spans import Span
from hf_spanner.methods import METHODS
from hf_spanner.quickstart import DefaultModel

if TYPE_CHECKING:
    from hf_spanner.analysis.entity_view import EntityView
    from hf_spanner.data.readers import load_rows, read_rows
    from hf_spanner.data.writers import save_rows
    from hf_spanner.training.arguments import SpanNERTrainingArguments
    from hf_spanner.training.collator import SpanNERCollator
    from hf_spanner.training.recipe import Recipe
    from hf_spanner.training.trainer import SpanNERTrainer

__version__ = VERSION
__all__ = [
    "METHODS",
    "EntityView",
    "Recipe",
    "Span",
    "SpanNERCollator",
    "SpanNERConfig",
    "SpanNERModel",
    "SpanNEROutput",
    "SpanNERPipeline",
    "SpanNERTrainer",
    "SpanNERTrainingArguments",
    "load_rows",
    "read_rows",
    "save_rows",
]
# The modules of the names that are imported on first use.
_ON_FIRST_USE = {
    "EntityView": "hf_spanner.analysis.entity_view",
    "Recipe": "hf_spanner.training.recipe",
    "SpanNERCollator": "hf_spanner.training.collator",
    "SpanNERTrainer": "hf_spanner.training.trainer",
    "SpanNERTrainingArguments": "hf_spanner.training.arguments",
    "load_rows": "hf_spanner.data.readers",
    "read_rows": "hf_spanner.data.readers",
    "save_rows": "hf_spanner.data.writers",
}


def __getattr__(name: str) -> Any:
    """A public name that is imported on first use."""
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = vars(import_module(_ON_FIRST_USE[name]))[name]
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """All names, those not yet imported among them."""
    return sorted({*globals(), *__all__})


for _model in METHODS.values():
    AutoConfig.register(_model.config_class.model_type, _model.config_class)
    AutoModel.register(_model.config_class, _model)
PIPELINE_REGISTRY.register_pipeline(
    "span-ner",
    pipeline_class=SpanNERPipeline,
    pt_model=AutoModel,
    default=DefaultModel(),
    type="text",
)

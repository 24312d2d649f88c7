"""Span-based named entity recognition: flat and nested entities, with confidences that mean what they say."""

from transformers import AutoConfig, AutoModel
from transformers.pipelines import PIPELINE_REGISTRY

from hf_spanner.core.configuration_span_ner import VERSION, SpanNERConfig
from hf_spanner.core.modeling_span_ner import SpanNERModel, SpanNEROutput
from hf_spanner.core.pipeline_span_ner import SpanNERPipeline
from hf_spanner.core.spans import Span
from hf_spanner.data.readers import load_rows
from hf_spanner.methods import METHODS
from hf_spanner.quickstart import MODEL_FOLDER
from hf_spanner.training.collator import SpanNERCollator
from hf_spanner.training.recipe import Recipe
from hf_spanner.training.trainer import SpanNERTrainer, SpanNERTrainingArguments

__version__ = VERSION
__all__ = [
    "METHODS",
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
]

for _model in METHODS.values():
    AutoConfig.register(_model.config_class.model_type, _model.config_class)
    AutoModel.register(_model.config_class, _model)
PIPELINE_REGISTRY.register_pipeline(
    "span-ner",
    pipeline_class=SpanNERPipeline,
    pt_model=AutoModel,
    default={"model": (str(MODEL_FOLDER), "main")},
    type="text",
)

"""A saved model and the rows that it is judged on: what evaluate, compare, analyze and calibrate share."""

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from tqdm import tqdm
from transformers import AutoConfig, AutoModel, AutoTokenizer

from hf_spanner.calibration.fitting import refuse_fitted_rows
from hf_spanner.commands.options import given_reading
from hf_spanner.core.configuration_span_ner import SpanNERConfig
from hf_spanner.core.pipeline_span_ner import SpanNERPipeline
from hf_spanner.core.spans import EntityLists
from hf_spanner.data.predicted import predicted_entities
from hf_spanner.data.readers import load_rows
from hf_spanner.methods import METHODS
from hf_spanner.training.windows import window_rows

RAW = {"calibration": None, "temperature": 1.0}


def judged_model(
    source: str, data: str, reading: Mapping[str, Any], *, raw: bool = False, allow_fitted_rows: bool = False
) -> tuple[SpanNERPipeline, Any]:
    """A saved model as a pipeline, and the rows that it is judged on, split at hyphens as the model reads them.

    Args:
        source: Folder or Hub name of the model.
        data: File, folder or data set on the Hub, as `load_rows` takes it.
        reading: Choices of `load_rows` by name, such as the split.
        raw: Leave the model's calibration and temperature out.
        allow_fitted_rows: Take also the rows that the calibration was fitted on.

    Raises:
        ValueError: If these are the rows of the fit and not allowed.
    """
    ner = saved_pipeline(source, raw=raw)
    config = ner.model.config
    rows: Any = load_rows(data, **reading, split_hyphens=config.split_hyphens)  # as a collection of rows
    if not allow_fitted_rows:
        refuse_fitted_rows(config.calibration, rows)
    return ner, rows


def saved_config(source: str, *, raw: bool = False) -> SpanNERConfig:
    """The configuration of a saved model; with `raw` without its calibration and temperature.

    Raises:
        ValueError: If it is that of another kind of model, such as an encoder.
    """
    config = AutoConfig.from_pretrained(source, **(RAW if raw else {}))
    if not isinstance(config, SpanNERConfig):
        raise ValueError(f"{source} must be a model of one of {', '.join(METHODS)}, got {config.model_type}")
    return config


def saved_pipeline(source: str, *, raw: bool = False) -> SpanNERPipeline:
    """A saved model as a pipeline; with `raw` without its calibration and temperature."""
    saved_config(source, raw=raw)
    model = AutoModel.from_pretrained(source, **(RAW if raw else {}))
    return SpanNERPipeline(model=model, tokenizer=AutoTokenizer.from_pretrained(source))


def training_rows(given: argparse.Namespace, split_hyphens: bool) -> Any:
    """The rows of `--train`, read as the data is; `--train-split` names the split, where there are several."""
    reading = given_reading(given) | {"split": given.train_split, "subset": None}
    return load_rows(given.train, **reading, split_hyphens=split_hyphens)


def predicted_and_gold(
    ner: SpanNERPipeline, rows: Iterable[Mapping[str, Any]], decoding: Mapping[str, Any], batch_size: int
) -> tuple[EntityLists, EntityLists]:
    """Predicted and gold entities of rows in words, by the pipeline; gold that no window can hold is reported.

    Args:
        ner: The model.
        rows: Rows with `tokens`, `entities` and, for context, `document`.
        decoding: Settings of inference by name, which override the model's own.
        batch_size: Windows run through the model at once.

    Returns:
        For each row its predicted entities (start, end, label, score), and the same for gold without scores.
    """
    rows = list(rows)
    _, report = window_rows(rows, ner.reader, ner.model.config.label2id)
    if report.examples:
        print(f"{report}; these count as missed")
    predicted = list(tqdm(predicted_entities(ner, rows, batch_size, decoding), total=len(rows), unit=" rows"))
    return predicted, [list(row["entities"]) for row in rows]

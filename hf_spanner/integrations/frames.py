"""Entities of frames of texts, for engines that hand frames to a function, such as `mapInPandas` of Spark."""

from collections.abc import Iterable, Iterator
from typing import Any

from pandas import DataFrame
from transformers import AutoModel, AutoTokenizer

from hf_spanner.core.pipeline_span_ner import SpanNERPipeline
from hf_spanner.data.answers import answered_records, record_problem

# The column that is added, in the words of Spark's schemas.
ENTITIES_SCHEMA = (
    "entities array<struct<start: int, end: int, label: string, score: double, text: string, word_start: int, "
    "word_end: int>>"
)


class AnsweredFrames:
    """Adds the entities of texts to frames; it can be sent to a worker, where each call loads the model.

    Spark's `mapInPandas` calls it once for each partition.

    Args:
        model: Folder or Hub name of the model, which every worker can read.
        column: The column of the texts.
        settings: Arguments of the pipeline, such as `batch_size` and settings of inference.
    """

    def __init__(self, model: str, column: str = "text", **settings: Any) -> None:
        self.model, self.column, self.settings = model, column, settings

    def __call__(self, frames: Iterable[DataFrame]) -> Iterator[DataFrame]:
        """The same frames with a column `entities`, as `answered_records` gives them.

        Raises:
            ValueError: If a frame lacks the column, or a value is no text; the message names its place.
        """
        ner = SpanNERPipeline(
            model=AutoModel.from_pretrained(self.model),
            tokenizer=AutoTokenizer.from_pretrained(self.model),
            **self.settings,
        )
        for frame in frames:
            if self.column not in frame.columns:
                raise ValueError(f"column must be one of {list(frame.columns)}, got {self.column!r}")
            records = [{"text": text} for text in frame[self.column]]
            for place, record in enumerate(records):
                if (problem := record_problem(record)) is not None:
                    raise ValueError(f"column {self.column}, row {place} (from 0) of a frame: {problem}")
            yield frame.assign(entities=[record["entities"] for record in answered_records(ner, records)])

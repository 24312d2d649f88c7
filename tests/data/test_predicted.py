"""Predictions of rows: the pipeline's answers to the same words, with offsets in words."""

from collections.abc import Callable
from typing import Any

import pytest

from hf_spanner import SpanNERPipeline
from hf_spanner.data.predicted import predicted_entities

WORDS = [["New York", "x"], ["Ana", "met", "Bo"], []]


@pytest.mark.parametrize("decoding", [{}, {"overlap": "any"}])
def test_entities_of_rows_are_those_of_the_pipeline_in_words(
    random_tagger: Callable[..., SpanNERPipeline], decoding: dict[str, Any]
) -> None:
    ner = random_tagger("boundary_smoothing")
    found = list(predicted_entities(ner, [{"tokens": words} for words in WORDS], 2, decoding))
    answers = ner(WORDS, pretokenized=True, **decoding)
    assert found == [
        [
            {"start": e["word_start"], "end": e["word_end"], "label": e["entity_group"], "score": e["score"]}
            for e in answer
        ]
        for answer in answers
    ]
    assert found[0]
    assert found[2] == []

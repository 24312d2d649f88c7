"""What models think of spans that they do not find, against the scores of each span by itself."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from hf_spanner import METHODS, SpanNERModel, SpanNERPipeline
from hf_spanner.annotation.alternatives import ALTERNATIVES, FLOOR, has_alternatives, scored_spans

ROWS = [{"tokens": ["Ana", "met", "Bo"]}, {"tokens": []}, {"tokens": ["It", "rained", "in", "Oslo", "."]}]
Key = tuple[int, int, str]


def keyed(entities: list[dict[str, Any]]) -> dict[Key, float]:
    return {(entity["start"], entity["end"], entity["label"]): entity["score"] for entity in entities}


@pytest.fixture(params=sorted(ALTERNATIVES))
def ner(
    request: pytest.FixtureRequest, tiny_model: Callable[..., SpanNERModel], tokenizer: PreTrainedTokenizerBase
) -> SpanNERPipeline:
    return SpanNERPipeline(model=tiny_model(request.param), tokenizer=tokenizer, device="cpu")


def test_what_is_found_is_among_the_alternatives_with_its_score(ner: SpanNERPipeline) -> None:
    everything = scored_spans(ner, ROWS, 2)
    answers = ner([row["tokens"] for row in ROWS], pretokenized=True, overlap="any", threshold=0.0)
    assert [len(entities) for entities in everything][1] == 0
    for entities, answer in zip(everything, answers, strict=True):
        scores = keyed(entities)
        assert all(score >= FLOOR for score in scores.values())
        for entity in answer:
            key = (entity["word_start"], entity["word_end"], entity["entity_group"])
            assert scores[key] == pytest.approx(entity["score"], abs=1e-5)
    assert sum(map(len, everything)) > sum(map(len, answers))


def test_boundary_smoothing_gives_every_span_and_label(
    tiny_model: Callable[..., SpanNERModel], tokenizer: PreTrainedTokenizerBase
) -> None:
    ner = SpanNERPipeline(model=tiny_model("boundary_smoothing"), tokenizer=tokenizer, device="cpu")
    for row, entities in zip(ROWS, scored_spans(ner, ROWS, 2), strict=True):
        expected: dict[Key, float] = {}
        if row["tokens"]:
            (text,) = ner.reader.texts([row["tokens"]])
            batch = {
                name: torch.from_numpy(array) for name, array in ner.reader.batch([(text, text.windows[0])]).items()
            }
            with torch.no_grad():
                scores = ner.model(**batch).logits.softmax(dim=-1)[0]
            for start in range(len(row["tokens"])):
                for last in range(start, len(row["tokens"])):
                    for number, label in ner.model.config.id2label.items():
                        expected[start, last + 1, label] = float(scores[start, last, number])
        expected = {key: score for key, score in expected.items() if score >= FLOOR}
        assert keyed(entities) == pytest.approx(expected, abs=1e-5)


def test_which_methods_have_alternatives() -> None:
    assert [name for name, model in METHODS.items() if has_alternatives(model.config_class())] == [
        "boundary_smoothing",
        "locate_and_label",
    ]
    multi_label = METHODS["locate_and_label"].config_class(multi_label=True)
    assert not has_alternatives(multi_label)

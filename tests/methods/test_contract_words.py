"""What every method promises of the shapes of words, run over METHODS; no method is named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from method_facts import facts_of
from tiny_training import QUIET, largest_difference, long_row, trained, with_loud_shapes
from torch import Tensor
from transformers import PreTrainedTokenizerBase, Trainer, TrainingArguments

from hf_spanner import SpanNERCollator, SpanNERModel, SpanNERPipeline
from hf_spanner.core.spans import unpack_spans

Rows = list[dict[str, Any]]
Make = Callable[..., SpanNERModel]


@pytest.fixture
def collator(tokenizer: PreTrainedTokenizerBase) -> SpanNERCollator:
    return SpanNERCollator(tokenizer, {"LOC": 0, "ORG": 1, "PER": 2}, word_features="shapes")


@pytest.fixture
def make_loud(tiny_model: Make, method: str) -> Make:
    """Makes a model that finds entities, in which the shape of a word changes every score."""

    def make(**fields: Any) -> SpanNERModel:
        model = with_loud_shapes(tiny_model(method, word_features="shapes", **facts_of(method).talkative, **fields))
        model.get_parameter(facts_of(method).none_bias).data[-1] = -10.0
        return model

    return make


@pytest.fixture
def loud(make_loud: Make) -> SpanNERModel:
    return make_loud()


def lowered(row: dict[str, Any]) -> dict[str, Any]:
    """A row that an encoder which lower-cases its input cannot tell from the one given."""
    return {**row, "tokens": [word.lower() for word in row["tokens"]]}


def unlabelled(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value for name, value in batch.items() if name != "labels"}


def test_a_new_model_gives_what_it_gives_without_shapes(
    tiny_model: Make, method: str, collator: SpanNERCollator, rows: Rows
) -> None:
    plain, featured = tiny_model(method), tiny_model(method, word_features="shapes")
    missing, unexpected = featured.load_state_dict(plain.state_dict(), strict=False)
    assert (missing, unexpected) == (["word_encoder.shapes.weight"], [])
    batch = collator(rows)
    assert torch.equal(featured(**batch).logits, plain(**batch).logits)
    assert torch.equal(featured(**batch).loss, plain(**batch).loss)


def test_shapes_tell_words_apart_that_are_equal_to_the_encoder(
    loud: SpanNERModel, tiny_model: Make, method: str, collator: SpanNERCollator, rows: Rows
) -> None:
    upper, lower = (unlabelled(collator(list(texts))) for texts in (rows, map(lowered, rows)))
    assert torch.equal(upper["input_ids"], lower["input_ids"])
    plain = tiny_model(method)
    assert torch.equal(plain(**upper).logits, plain(**lower).logits)
    assert not torch.allclose(loud(**upper).logits, loud(**lower).logits)


def test_a_sentence_has_the_same_candidates_alone_and_in_a_batch(
    loud: SpanNERModel, collator: SpanNERCollator, rows: Rows
) -> None:
    def candidates(batch: dict[str, Tensor]) -> list[list[tuple]]:
        packed = loud.candidate_spans(loud(**unlabelled(batch)), loud.decoding())
        return [sorted((*span[:3], round(span.score, 4)) for span in spans) for spans in unpack_spans(packed)]

    with torch.no_grad():
        together = candidates(collator(rows))
        assert together == [candidates(collator([row]))[0] for row in rows]
    assert sum(map(len, together)) > 0


def test_pipeline_and_trainer_read_the_shapes_of_text_words_windows_and_context(
    make_loud: Make, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    """Each entity is found by both with equal scores, and lower case changes some."""
    model = make_loud(window_size=20, window_overlap=8, context_sentences=1)
    rows = [{**long_row(length), "document": "d"} for length in (5, 5, 40)]
    trainer = trained(model, tokenizer, rows[:1], tmp_path, max_steps=1, learning_rate=0.0, head_learning_rate=0.0)
    expected = [
        sorted((span["start"], span["end"], span["label"], round(span["score"], 4)) for span in spans)
        for spans in trainer.predict(rows).predictions
    ]
    tagger = SpanNERPipeline(model=model, tokenizer=tokenizer)
    words, documents = [row["tokens"] for row in rows], ["d"] * 3

    def found(answers: list[list[dict[str, Any]]]) -> list[list[tuple]]:
        names = ("word_start", "word_end", "entity_group")
        return [
            sorted((*(entity[name] for name in names), round(entity["score"], 4)) for entity in entities)
            for entities in answers
        ]

    assert found(tagger(words, documents=documents, pretokenized=True)) == expected
    assert found(tagger([" ".join(text) for text in words], documents=documents)) == expected
    assert sum(map(len, expected)) > 0
    lower = [lowered(row)["tokens"] for row in rows]
    assert found(tagger(lower, documents=documents, pretokenized=True)) != expected


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "library"])
def test_training_moves_the_vectors_from_zero_and_they_are_saved(
    is_ours: bool, tiny_model: Make, method: str, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    model = tiny_model(method, word_features="shapes")
    shapes = model.word_encoder.shapes.weight
    assert not shapes.any()
    if is_ours:
        trained(model, tokenizer, rows, tmp_path, max_steps=2)
    else:
        collator = SpanNERCollator(tokenizer, model.config.label2id, word_features=model.config.word_features)
        settings = {"max_steps": 2, "save_strategy": "no", "remove_unused_columns": False, **QUIET}
        args = TrainingArguments(str(tmp_path), learning_rate=1e-3, **settings)
        Trainer(model=model, args=args, data_collator=collator, train_dataset=rows).train()
    assert shapes.any()
    assert shapes.isfinite().all()
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert loaded.config.word_features == "shapes"
    assert largest_difference(model, loaded) == 0.0


def test_a_batch_without_the_shapes_is_refused_in_words(
    loud: SpanNERModel, tokenizer: PreTrainedTokenizerBase, rows: Rows
) -> None:
    batch = SpanNERCollator(tokenizer, loud.config.label2id)(rows)
    with pytest.raises(ValueError, match="word_shapes must be given, since the model"):
        loud(**batch)

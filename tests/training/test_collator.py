"""The batch of the collator: shapes, types, padding, and what it refuses."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from hf_spanner.core.word_shapes import word_shape
from hf_spanner.training.collator import SpanNERCollator

LABEL2ID = {"LOC": 0, "ORG": 1, "PER": 2}


@pytest.fixture
def collator(tokenizer: PreTrainedTokenizerBase) -> SpanNERCollator:
    return SpanNERCollator(tokenizer, LABEL2ID)


def entity(start: int, end: int, label: str = "PER") -> dict[str, Any]:
    return {"start": start, "end": end, "label": label}


def test_batch_has_the_shapes_types_and_padding_of_the_contract(
    collator: SpanNERCollator, tokenizer: PreTrainedTokenizerBase, rows: list[Mapping[str, Any]]
) -> None:
    batch = collator(rows)
    pieces = [tokenizer(row["tokens"], is_split_into_words=True) for row in rows]
    num_tokens = max(len(encoding["input_ids"]) for encoding in pieces)
    num_words = max(len(row["tokens"]) for row in rows)
    for name in ("input_ids", "attention_mask", "word_index"):
        assert batch[name].shape == (len(rows), num_tokens)
        assert batch[name].dtype == torch.long
    assert batch["word_mask"].shape == (len(rows), num_words)
    assert batch["word_mask"].dtype == torch.bool
    assert batch["labels"].shape == (len(rows), 3, 3)
    assert batch["labels"].dtype == torch.long
    assert set(batch) == {"input_ids", "attention_mask", "word_index", "word_mask", "labels"}
    for place, (row, encoding) in enumerate(zip(rows, pieces, strict=True)):
        length = len(encoding["input_ids"])
        assert batch["input_ids"][place, :length].tolist() == encoding["input_ids"]
        assert (batch["input_ids"][place, length:] == tokenizer.pad_token_id).all()
        assert batch["attention_mask"][place].tolist() == [1] * length + [0] * (num_tokens - length)
        index = [0 if word is None else word + 1 for word in encoding.word_ids()]
        assert batch["word_index"][place].tolist() == index + [0] * (num_tokens - length)
        words = len(row["tokens"])
        assert batch["word_mask"][place].tolist() == [True] * words + [False] * (num_words - words)
        gold = [
            [gold_entity["start"], gold_entity["end"], LABEL2ID[gold_entity["label"]]]
            for gold_entity in row["entities"]
        ]
        assert batch["labels"][place].tolist() == gold + [[-100] * 3] * (3 - len(gold))


def test_shapes_of_words_come_where_the_model_reads_them(
    collator: SpanNERCollator, tokenizer: PreTrainedTokenizerBase, rows: list[Mapping[str, Any]]
) -> None:
    """They are those of the row's words, not of its context, and nothing else changes."""
    rows = [{**row, "left_context": [7, 8], "right_context": [9]} for row in rows]
    plain, batch = collator(rows), SpanNERCollator(tokenizer, LABEL2ID, word_features="shapes")(rows)
    shapes = batch.pop("word_shapes")
    assert batch.keys() == plain.keys()
    assert all(torch.equal(batch[name], plain[name]) for name in plain)
    assert shapes.dtype == torch.long
    for row, row_shapes in zip(rows, shapes.tolist(), strict=True):
        expected = [word_shape(word) for word in row["tokens"]]
        assert row_shapes == expected + [0] * (shapes.shape[1] - len(expected))


def test_rows_without_entities_key_give_no_labels(collator: SpanNERCollator) -> None:
    assert "labels" not in collator([{"tokens": ["Ana"]}, {"tokens": ["Bo", "met"]}])


def test_gold_of_a_part_of_a_batch_is_refused(collator: SpanNERCollator, rows: list[Mapping[str, Any]]) -> None:
    with pytest.raises(ValueError, match="entities must be in all rows of a batch or in none, got 1 of 2"):
        collator([{"tokens": ["Ana"]}, rows[0]])


def test_rows_without_gold_give_an_empty_table(collator: SpanNERCollator) -> None:
    batch = collator([{"tokens": ["it", "rains"], "entities": []}, {"tokens": [], "entities": []}])
    assert batch["labels"].shape == (2, 0, 3)
    assert batch["word_mask"].tolist() == [[True, True], [False, False]]


def test_a_word_without_tokens_keeps_its_place(collator: SpanNERCollator) -> None:
    batch = collator([{"tokens": ["Ana", " ", "Bo"], "entities": [entity(2, 3)]}])
    assert batch["word_mask"].tolist() == [[True, False, True]]
    assert batch["labels"].tolist() == [[[2, 3, 2]]]
    assert set(batch["word_index"][0].tolist()) == {0, 1, 3}


def test_context_tokens_belong_to_no_word(collator: SpanNERCollator, tokenizer: PreTrainedTokenizerBase) -> None:
    plain = collator([{"tokens": ["Ana", "met"], "entities": []}])
    batch = collator([{"tokens": ["Ana", "met"], "entities": [], "left_context": [7, 8], "right_context": [9]}])
    ids, index = plain["input_ids"][0].tolist(), plain["word_index"][0].tolist()
    assert batch["input_ids"][0].tolist() == [ids[0], 7, 8, *ids[1:-1], 9, ids[-1]]
    assert batch["word_index"][0].tolist() == [0, 0, 0, *index[1:-1], 0, 0]
    assert batch["attention_mask"].all()
    assert torch.equal(batch["word_mask"], plain["word_mask"])


def test_place_of_window_rows_travels_with_the_batch(collator: SpanNERCollator) -> None:
    place = {"row": 4, "first_word": 2, "num_words": 1, "num_windows": 3}
    assert collator([{"tokens": ["Ana"], "entities": [], **place}])["windows"].tolist() == [[4, 2, 1, 3]]


def test_equal_rows_give_equal_batches(collator: SpanNERCollator, rows: list[Mapping[str, Any]]) -> None:
    state = torch.get_rng_state()
    first, second = collator(rows), collator(rows)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_row_longer_than_the_window_is_refused(tokenizer: PreTrainedTokenizerBase) -> None:
    collator = SpanNERCollator(tokenizer, LABEL2ID, window_size=6)
    collator([{"tokens": ["a"] * 6}])
    with pytest.raises(ValueError, match=r"7 words has 7 tokens.*window_size = 6"):
        collator([{"tokens": ["a"] * 7}])


def test_tokens_of_one_word_are_limited(tokenizer: PreTrainedTokenizerBase) -> None:
    collator = SpanNERCollator(tokenizer, LABEL2ID, max_word_tokens=3)
    batch = collator([{"tokens": ["xqzxqzxqz", "a"]}])
    assert batch["word_index"].tolist() == [[0, 1, 1, 1, 2, 0]]


def test_an_unknown_label_is_refused_with_those_known(collator: SpanNERCollator) -> None:
    with pytest.raises(ValueError, match="'DATE' is not one of LOC, ORG, PER"):
        collator([{"tokens": ["Ana"], "entities": [entity(0, 1, "DATE")]}])


@pytest.mark.parametrize(("start", "end"), [(0, 3), (1, 1), (-1, 1), (2, 1)])
def test_an_entity_outside_its_row_is_refused(collator: SpanNERCollator, start: int, end: int) -> None:
    with pytest.raises(ValueError, match="outside its row of 2 words"):
        collator([{"tokens": ["Ana", "met"], "entities": [entity(start, end)]}])

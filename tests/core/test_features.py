"""The word tokenizer, the window plan, and padding."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoTokenizer, BertConfig, PreTrainedTokenizerBase

from hf_spanner.core import features
from hf_spanner.core.features import (
    TokenizedWords,
    Window,
    WordTokenizer,
    pad_features,
    plan_windows,
)
from hf_spanner.core.word_shapes import LOWER, MARKS, NO_SHAPE, TITLE, word_shape

KINDS = ("wordpiece", "bpe", "unigram")
PLANS = st.tuples(st.lists(st.integers(0, 5), max_size=40), st.integers(5, 12), st.integers(5, 11)).filter(
    lambda plan: plan[2] < plan[1]
)


def bounds_of(counts: list[int]) -> list[int]:
    """Token bounds of words with the given counts of tokens."""
    return [sum(counts[:place]) for place in range(len(counts) + 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_the_tokenizer(kind: str, tokenizers_by_kind: dict[str, PreTrainedTokenizerBase]) -> None:
    tokenizer = tokenizers_by_kind[kind]
    words = ["Ana", "met", "Bo", "unbelievable", "\u2603"]
    expected = tokenizer(words, is_split_into_words=True)
    tokenize = WordTokenizer(tokenizer, 100)
    feature = tokenize.feature(tokenize([words])[0], Window(0, len(words)))
    assert feature["input_ids"] == expected["input_ids"]
    assert feature["word_index"] == [0 if word is None else word + 1 for word in expected.word_ids()]


def test_byte_level_words_have_a_blank_before_them_however_the_tokenizer_was_loaded(
    tokenizers_by_kind: dict[str, PreTrainedTokenizerBase],
) -> None:
    """Some classes ignore `add_prefix_space`; without the blank every word reads as the middle of another."""
    texts = [["Ana", "met", "", "Bo", "unbelievable"], []]
    tokenizer = tokenizers_by_kind["bpe"]
    expected = WordTokenizer(tokenizer, 100)(texts)
    tokenizer.backend_tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenize = WordTokenizer(tokenizer, 100)
    assert tokenize.rules.needs_blank
    assert tokenize(texts) == expected
    assert (tokenize.rules.prefix, tokenize.rules.suffix) == ([0], [2])


@pytest.mark.parametrize("kind", KINDS)
def test_prefix_and_suffix_are_the_special_tokens(
    kind: str, tokenizers_by_kind: dict[str, PreTrainedTokenizerBase]
) -> None:
    tokenizer = tokenizers_by_kind[kind]
    tokenize = WordTokenizer(tokenizer, 100)
    assert (tokenize.rules.prefix, tokenize.rules.suffix) == ([tokenizer.cls_token_id], [tokenizer.sep_token_id])


@pytest.mark.parametrize("kind", KINDS)
def test_special_strings_are_plain_text(kind: str, tokenizers_by_kind: dict[str, PreTrainedTokenizerBase]) -> None:
    """T-10: the text's own [SEP] or </s> gives no special id, so no more special tokens than for the text x."""
    tokenizer = tokenizers_by_kind[kind]
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    tokenize = WordTokenizer(tokenizer, 100)
    text = tokenize([["[SEP]", "[CLS]", "</s>", "<s>", "<pad>", "[PAD]", "[MASK]", "<mask>", "Ana"]])[0]
    assert special.isdisjoint(text.ids)
    assert len(text.bounds) == 10


@pytest.mark.parametrize("kind", KINDS)
def test_half_a_character_keeps_its_place(kind: str, tokenizers_by_kind: dict[str, PreTrainedTokenizerBase]) -> None:
    """A lone surrogate, which no tokenizer takes, reads as the mark for what is no character."""
    tokenize = WordTokenizer(tokenizers_by_kind[kind], 100)
    halves = tokenize([["Ana", "\ud800", "B\udfffo", "met"]])
    assert halves == tokenize([["Ana", "\ufffd", "B\ufffdo", "met"]])


@pytest.mark.parametrize("kind", KINDS)
def test_giant_word_is_cut_and_reported(
    kind: str, tokenizers_by_kind: dict[str, PreTrainedTokenizerBase], monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings = []
    monkeypatch.setattr(features.logger, "warning", lambda message, *values: warnings.append(message % values))
    tokenize = WordTokenizer(tokenizers_by_kind[kind], 20)
    text = tokenize([["Ana", "".join("ab" * 2500), "Oslo"]])[0]
    counts = [after - before for before, after in pairwise(text.bounds)]
    neighbours = WordTokenizer(tokenizers_by_kind[kind], 100)([["Ana", "Oslo"]])[0]
    assert counts[1] == (1 if kind == "wordpiece" else 20)
    assert text.ids[: counts[0]] + text.ids[-counts[2] :] == neighbours.ids
    assert len(text.ids) == text.bounds[-1]
    if kind == "wordpiece":
        assert warnings == []
    else:
        assert len(warnings) == 1
        assert warnings[0].startswith("1 word(s) have more than 20 tokens")
        assert "ababab" in warnings[0]
        assert len(warnings[0]) < 200


def test_slow_tokenizer_is_refused(tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(tokenizer), "is_fast", False)
    with pytest.raises(ValueError, match="a fast tokenizer is needed"):
        WordTokenizer(tokenizer, 10)


def test_what_is_no_tokenizer_is_refused() -> None:
    """As the library gives it where `tokenizer_class` names a model or a configuration."""
    for other in (BertConfig(), None):
        with pytest.raises(ValueError, match=f"a fast tokenizer is needed .* got {type(other).__name__}"):
            WordTokenizer(cast(Any, other), 10)


def test_truncation_and_padding_of_the_tokenizer_are_switched_off(tiny_encoder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    tokenizer.backend_tokenizer.enable_truncation(3)
    tokenizer.backend_tokenizer.enable_padding(length=50)
    assert len(WordTokenizer(tokenizer, 10)([["a"] * 7])[0].ids) == 7


def test_the_callers_tokenizer_and_this_one_leave_each_other_alone(tiny_encoder: Path) -> None:
    """A call with padding and truncation would otherwise cut later texts; special strings are special to the caller."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    mask = tokenizer("[MASK]")["input_ids"]
    tokenize = WordTokenizer(tokenizer, 10)
    words = [["a"] * 7, ["[MASK]"]]
    expected = tokenize(words)
    tokenizer(["a b c d", "a"], truncation=True, max_length=3, padding="max_length")
    assert tokenize(words) == expected
    assert tokenizer("[MASK]")["input_ids"] == mask
    assert len(mask) == 3


def test_feature_with_context_on_both_sides(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenize = WordTokenizer(tokenizer, 10)
    text = TokenizedWords([10, 11, 12, 13, 14], [0, 1, 3, 3, 5])
    feature = tokenize.feature(text, Window(1, 3), left=[20, 21], right=[30])
    assert feature["input_ids"] == [*tokenize.rules.prefix, 20, 21, 11, 12, 13, 14, 30, *tokenize.rules.suffix]
    assert feature["word_index"] == [0, 0, 0, 1, 1, 3, 3, 0, 0]


def test_a_window_has_the_features_of_its_words(tokenizer: PreTrainedTokenizerBase) -> None:
    words = ["Ana", "met", "NATO", " ", "."]
    tokenize = WordTokenizer(tokenizer, 10, "shapes")
    text = tokenize([words])[0]
    feature = tokenize.feature(text, Window(1, 3), left=[20, 21], right=[30])
    assert feature["word_shapes"].tolist() == [word_shape(word) for word in words[1:4]]
    assert "word_shapes" not in WordTokenizer(tokenizer, 10).feature(text._replace(features={}), Window(1, 3))


@given(PLANS)
def test_windows_cover_all_words_and_fit(plan: tuple[list[int], int, int]) -> None:
    counts, size, overlap = plan
    windows = plan_windows(bounds_of(counts), size, overlap)
    counts = [max(1, count) for count in counts]
    bounds = bounds_of(counts)
    assert windows[0].first_word == 0
    assert windows[-1].first_word + windows[-1].num_words == len(counts)
    for window in windows:
        assert sum(counts[window.first_word : window.first_word + window.num_words]) <= size
    for before, after in pairwise(windows):
        end = before.first_word + before.num_words
        assert before.first_word < after.first_word <= end <= after.first_word + after.num_words
        shared = bounds[end] - bounds[after.first_word]
        assert shared <= overlap
        is_earliest = after.first_word == before.first_word + 1 or bounds[end] - bounds[after.first_word - 1] > overlap
        assert is_earliest


def test_windows_worked_by_hand() -> None:
    """There are ten words of one token, four in a window, and neighbouring windows share two."""
    windows = plan_windows(list(range(11)), 4, 2)
    assert windows == [Window(0, 4), Window(2, 4), Window(4, 4), Window(6, 4)]


def test_words_without_tokens_do_not_fill_a_window_without_end() -> None:
    """The memory of a model that scores pairs of words grows with their square."""
    assert plan_windows([0, 1, *[1] * 5], 4, 2) == [Window(0, 4), Window(2, 4)]


def test_a_text_without_words_is_one_empty_window() -> None:
    assert plan_windows([0], 4, 2) == [Window(0, 0)]


def test_padding_of_a_batch() -> None:
    batch = pad_features(
        [
            {"input_ids": [2, 5, 6, 7, 3], "word_index": [0, 1, 1, 3, 0]},
            {"input_ids": [2, 3], "word_index": [0, 0]},
        ],
        num_words=[3, 0],
        pad_id=9,
    )
    assert batch["input_ids"].tolist() == [[2, 5, 6, 7, 3], [2, 3, 9, 9, 9]]
    assert batch["attention_mask"].tolist() == [[1] * 5, [1, 1, 0, 0, 0]]
    assert batch["word_index"].tolist() == [[0, 1, 1, 3, 0], [0] * 5]
    assert batch["word_mask"].tolist() == [[True, False, True], [False] * 3]
    assert [batch[name].dtype for name in batch] == [np.int64] * 3 + [np.bool_]


def test_features_of_words_are_padded_with_0_to_the_words_of_the_batch(tokenizer: PreTrainedTokenizerBase) -> None:
    """A word without tokens has a shape all the same: the mask says that nothing is made of it."""
    tokenize = WordTokenizer(tokenizer, 10, "shapes")
    texts = [["Ana", " ", "met"], [], ["A"]]
    features = [
        tokenize.feature(text, Window(0, len(words))) for text, words in zip(tokenize(texts), texts, strict=True)
    ]
    batch = pad_features(features, [3, 0, 1], 0)
    assert batch["word_shapes"].tolist() == [[TITLE, MARKS, LOWER], [NO_SHAPE] * 3, [TITLE, NO_SHAPE, NO_SHAPE]]
    assert batch["word_shapes"].dtype == np.int64
    assert pad_features(features[1:2], [0], 0)["word_shapes"].tolist() == [[NO_SHAPE]]


def test_batch_without_words_keeps_one_place(tiny_model: Callable[..., Any]) -> None:
    batch = pad_features([{"input_ids": [2, 3], "word_index": [0, 0]}], [0], 0)
    assert batch["word_mask"].shape == (1, 1)
    assert tiny_model().candidate_function()(batch).shape[:2] == (1, 0)

"""Word tokenizer, window plan, owner of a span, merge of windows, and padding."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from hf_spanner.core import features
from hf_spanner.core.features import (
    TokenizedWords,
    Window,
    WordTokenizer,
    merge_windows,
    pad_features,
    plan_windows,
    window_owners,
)
from hf_spanner.core.spans import PADDING, Span

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
    assert tokenize.needs_blank
    assert tokenize(texts) == expected
    assert (tokenize.prefix, tokenize.suffix) == ([0], [2])


@pytest.mark.parametrize("kind", KINDS)
def test_prefix_and_suffix_are_the_special_tokens(
    kind: str, tokenizers_by_kind: dict[str, PreTrainedTokenizerBase]
) -> None:
    tokenizer = tokenizers_by_kind[kind]
    tokenize = WordTokenizer(tokenizer, 100)
    assert (tokenize.prefix, tokenize.suffix) == ([tokenizer.cls_token_id], [tokenizer.sep_token_id])


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
    own = WordTokenizer(tokenizers_by_kind[kind], 100)([["Ana", "Oslo"]])[0]
    assert counts[1] == (1 if kind == "wordpiece" else 20)
    assert text.ids[: counts[0]] + text.ids[-counts[2] :] == own.ids
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


def test_truncation_and_padding_of_the_tokenizer_are_switched_off(tiny_encoder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    tokenizer.backend_tokenizer.enable_truncation(3)
    tokenizer.backend_tokenizer.enable_padding(length=50)
    assert len(WordTokenizer(tokenizer, 10)([["a"] * 7])[0].ids) == 7


def test_the_callers_tokenizer_and_this_one_leave_each_other_alone(tiny_encoder: Path) -> None:
    """A call with padding and truncation would else cut later texts; special strings stay special to the caller."""
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
    assert feature["input_ids"] == [*tokenize.prefix, 20, 21, 11, 12, 13, 14, 30, *tokenize.suffix]
    assert feature["word_index"] == [0, 0, 0, 1, 1, 3, 3, 0, 0]


@given(PLANS)
def test_windows_cover_all_words_and_fit(plan: tuple[list[int], int, int]) -> None:
    counts, size, overlap = plan
    bounds = bounds_of(counts)
    windows = plan_windows(bounds, size, overlap)
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
    """Ten words of one token, four a window, two shared."""
    windows = plan_windows(list(range(11)), 4, 2)
    assert windows == [Window(0, 4), Window(2, 4), Window(4, 4), Window(6, 4)]


def test_a_text_without_words_is_one_empty_window() -> None:
    assert plan_windows([0], 4, 2) == [Window(0, 0)]


@given(PLANS)
def test_each_span_has_one_owner_which_holds_it_if_it_fits_the_shared_words(
    plan: tuple[list[int], int, int],
) -> None:
    counts, size, overlap = plan
    windows = plan_windows(bounds_of(counts), size, overlap)
    shared = [before.first_word + before.num_words - after.first_word for before, after in pairwise(windows)]
    num_words = len(counts)
    for start in range(num_words):
        for end in range(start + 1, num_words + 1):
            owner = int(window_owners(windows, np.array([start]), np.array([end]))[0])
            first, length = windows[owner]
            if end - start <= min(shared, default=num_words):
                assert first <= start
                assert end <= first + length


def packed(*rows: tuple[int, int, int, float]) -> np.ndarray:
    """A table of candidates with a row of padding."""
    return np.array([*rows, (PADDING,) * 4], dtype=np.float32)


CONFIG = {"id2label": {0: "A", 1: "B"}, "multi_label": False, "calibration": None}
FLAT = {"overlap": "flat", "threshold": 0.0}


@given(PLANS)
def test_a_span_seen_by_several_windows_is_given_once(plan: tuple[list[int], int, int]) -> None:
    counts, size, overlap = plan
    windows = plan_windows(bounds_of(counts), size, overlap)
    tables = [packed(*((place, place + 1, 0, 0.5) for place in range(window.num_words))) for window in windows]
    found = merge_windows(tables, windows, CONFIG, FLAT)
    assert found == [Span(place, place + 1, 0, 0.5) for place in range(len(counts))]


@given(PLANS, st.data())
def test_order_of_candidates_in_a_window_changes_nothing(plan: tuple[list[int], int, int], data: st.DataObject) -> None:
    counts, size, overlap = plan
    windows = plan_windows(bounds_of(counts), size, overlap)
    tables, shuffled = [], []
    for window in windows:
        places = st.integers(0, max(0, window.num_words - 1))
        candidates = st.tuples(places, places, st.integers(0, 1), st.sampled_from([0.25, 0.5, 0.75]))
        rows = data.draw(st.lists(candidates, max_size=6)) if window.num_words else []
        rows = [(min(a, b), max(a, b) + 1, label, score) for a, b, label, score in rows]
        tables.append(packed(*rows))
        shuffled.append(packed(*data.draw(st.permutations(rows))))
    for policy in ("flat", "nested", "any"):
        decoding = {"overlap": policy, "threshold": 0.5}
        assert merge_windows(tables, windows, CONFIG, decoding) == merge_windows(shuffled, windows, CONFIG, decoding)


def test_the_earlier_window_owns_a_midpoint_on_the_border() -> None:
    """Windows [0, 4) and [2, 6) share words 2 and 3, so the border is at 3 and [2, 4) has its midpoint there."""
    windows = [Window(0, 4), Window(2, 4)]
    assert window_owners(windows, np.array([2, 2, 3]), np.array([4, 3, 4])).tolist() == [0, 0, 1]
    found = merge_windows([packed((2, 4, 0, 0.25)), packed((0, 2, 1, 0.75))], windows, CONFIG, FLAT)
    assert found == [Span(2, 4, 0, 0.25)]


def test_overlaps_are_resolved_before_the_threshold_acts() -> None:
    """The best candidate falls to the threshold after calibration; what it pushed out stays out."""
    table = packed((0, 3, 0, 0.75), (1, 2, 1, 0.5))
    config = {**CONFIG, "calibration": {"all": {"temperature": 2.0}, "per_label": {}}}
    calibrated = merge_windows([table], [Window(0, 3)], config, FLAT)
    # logit(0.75) = ln 3; halved, sigmoid(ln(3) / 2) = sqrt(3) / (1 + sqrt(3))
    assert calibrated == [Span(0, 3, 0, pytest.approx(3**0.5 / (1 + 3**0.5)))]
    assert merge_windows([table], [Window(0, 3)], config, {**FLAT, "threshold": 0.64}) == []
    assert len(merge_windows([table], [Window(0, 3)], config, {**FLAT, "threshold": 0.63})) == 1


def test_maps_of_labels_act_behind_the_overlaps_and_before_the_threshold() -> None:
    """The raw 0.75 of A pushes B out although B's map would lift it above; then A's map takes it below 0.5."""
    table = packed((0, 3, 0, 0.75), (1, 2, 1, 0.5), (4, 5, 1, 0.25))
    maps = {"A": {"scores": [0.0], "probabilities": [0.4]}, "B": {"scores": [0.0], "probabilities": [0.9]}}
    config = {**CONFIG, "calibration": {"all": {"temperature": 1.0}, "per_label": maps}}
    assert merge_windows([table], [Window(0, 5)], config, FLAT) == [Span(0, 3, 0, 0.4), Span(4, 5, 1, 0.9)]
    assert merge_windows([table], [Window(0, 5)], config, {**FLAT, "threshold": 0.5}) == [Span(4, 5, 1, 0.9)]


def test_a_score_equal_to_the_threshold_stays() -> None:
    table = packed((0, 1, 0, 0.5), (1, 2, 0, 0.4999))
    found = merge_windows([table], [Window(0, 2)], CONFIG, {**FLAT, "threshold": 0.5})
    assert found == [Span(0, 1, 0, 0.5)]


def test_each_label_may_have_a_threshold_of_its_own() -> None:
    table = packed((0, 1, 0, 0.5), (1, 2, 1, 0.5), (2, 3, 1, 0.75))
    found = merge_windows([table], [Window(0, 3)], CONFIG, {**FLAT, "threshold": {"A": 0.5, "B": 0.625}})
    assert found == [Span(0, 1, 0, 0.5), Span(2, 3, 1, 0.75)]


def test_overlaps_across_windows_are_resolved_once_per_text() -> None:
    """Each window's candidate is its own; they cross each other and the better one stays."""
    windows = [Window(0, 4), Window(2, 4)]
    tables = [packed((1, 4, 0, 0.5)), packed((1, 3, 1, 0.75))]
    assert merge_windows(tables, windows, CONFIG, FLAT) == [Span(3, 5, 1, 0.75)]


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
    assert [batch[name].dtype for name in batch] == [torch.long] * 3 + [torch.bool]


def test_batch_without_words_keeps_one_place(tiny_model: Callable[..., Any]) -> None:
    batch = pad_features([{"input_ids": [2, 3], "word_index": [0, 0]}], [0], 0)
    assert batch["word_mask"].shape == (1, 1)
    model = tiny_model()
    assert model.decode(model(**batch)) == [[]]

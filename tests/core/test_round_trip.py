"""Gold entities -> targets -> perfect scores -> candidates -> entities, for every kind of text and tokenizer."""

import time
from collections.abc import Callable
from typing import Any

import pytest

KINDS = ("wordpiece", "bpe", "unigram")
LABELS = ("DATE", "LOC", "ORG", "PER")
ROUND_TRIPS = ("T-01", "T-02", "T-03", "T-07", "T-08", "T-10")


def built(item: dict[str, Any]) -> str:
    """The text of a case, written out or built from its recipe."""
    recipe = item.get("build")
    return item["text"] if recipe is None else recipe["char"] * recipe["times"] + recipe["then"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case_id", ROUND_TRIPS)
def test_entities_come_back_unchanged(
    case_id: str, kind: str, cases: Callable[[str], dict[str, Any]], perfect_pipeline: Callable[..., Any]
) -> None:
    case = cases(case_id)
    perfect = perfect_pipeline(kind, labels=LABELS)
    for item, expected in zip(case["input"]["items"], case["expected"]["entities"], strict=True):
        began = time.perf_counter()
        found = perfect.of_text(built(item), item["entities"])
        assert time.perf_counter() - began < case["input"].get("max_seconds", 60)
        named = [
            {"start": one["start"], "end": one["end"], "label": one["entity_group"], "text": one["word"]}
            for one in found
        ]
        assert named == expected


@pytest.mark.parametrize("kind", KINDS)
def test_words_without_tokens_shift_no_index(
    kind: str, cases: Callable[[str], dict[str, Any]], perfect_pipeline: Callable[..., Any]
) -> None:
    """T-04: the tokenizers differ in which words have no token, never in which word is which."""
    case = cases("T-04")
    perfect = perfect_pipeline(kind)
    tokenize = perfect.pipeline.word_tokenizer
    for item, expected in zip(case["input"]["items"], case["expected"]["spans"], strict=True):
        found = perfect.run(item["tokens"], item["spans"], pretokenized=True)
        named = [[one["word_start"], one["word_end"], one["entity_group"]] for one in found]
        bounds = tokenize([item["tokens"]])[0].bounds
        learnable = [
            [start, end, label]
            for start, end, label in item["spans"]
            if bounds[start + 1] > bounds[start] and bounds[end] > bounds[end - 1]
        ]
        assert named == learnable
        if kind == "wordpiece":
            assert named == expected


def test_the_last_span_of_t04_has_no_token(
    cases: Callable[[str], dict[str, Any]], perfect_pipeline: Callable[..., Any]
) -> None:
    """The WordPiece tokenizer gives nothing for a zero-width space, so the case really tests it."""
    tokens = cases("T-04")["input"]["items"][2]["tokens"]
    bounds = perfect_pipeline().pipeline.word_tokenizer([tokens])[0].bounds
    assert bounds[1] == bounds[2]


def test_nested_entities_come_back(perfect_pipeline: Callable[..., Any]) -> None:
    text = "The University of New York opened ."
    spans = [(0, 5, "ORG"), (1, 5, "ORG"), (3, 5, "LOC"), (4, 5, "PER")]
    found = perfect_pipeline(overlap="nested").run(text, spans)
    assert [(one["word_start"], one["word_end"], one["entity_group"]) for one in found] == spans


@pytest.mark.parametrize("item", [0, 1, 2])
def test_entity_across_the_edge_of_a_window(
    item: int, cases: Callable[[str], dict[str, Any]], perfect_pipeline: Callable[..., Any]
) -> None:
    """T-06: one piece a word, 14 words a window."""
    case = cases("T-06")
    recipe, label = case["input"]["items"][item]["build"], case["input"]["items"][item]["label"]
    text = " ".join(["a"] * recipe["n_before"] + [recipe["entity"]] + ["b"] * recipe["n_after"])
    perfect = perfect_pipeline(window_size=14, window_overlap=8)
    expected = case["expected"]["entities"][item]
    moved = recipe["n_before"] * (len(recipe["filler"]) - 1)
    entities = [{**one, "start": one["start"] - moved, "end": one["end"] - moved} for one in expected]
    found = perfect.of_text(text, entities)
    assert len(perfect.windows) > 2
    assert [(one["start"], one["end"], one["entity_group"], one["word"]) for one in found] == [
        (one["start"], one["end"], label, one["text"]) for one in entities
    ]


@pytest.mark.parametrize("num_before", [509, 510, 511])
@pytest.mark.parametrize("kind", KINDS)
def test_entity_across_the_edge_of_the_whole_encoder(
    num_before: int, kind: str, perfect_pipeline: Callable[..., Any]
) -> None:
    """T-06 at a limit of 512 tokens: the default window is all that the encoder's positions allow."""
    perfect = perfect_pipeline(kind)
    assert perfect.model.config.window_size == 510
    words = ["a"] * num_before + ["Mira", "Holt"] + ["a"] * 30
    found = perfect.run(" ".join(words), [(num_before, num_before + 2, "PER")])
    assert [(one["start"], one["word"]) for one in found] == [(2 * num_before, "Mira Holt")]
    assert len(perfect.windows) > 1

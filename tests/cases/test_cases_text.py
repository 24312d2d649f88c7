"""Cases T: offsets, blanks, marks, scripts, windows and hostile tokens, for every method and tokenizer."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from hf_spanner import SpanNERPipeline
from hf_spanner.core.features import WordTokenizer
from hf_spanner.core.words import split_words, trim_span
from hf_spanner.training.windows import window_rows

Case = dict[str, Any]
LABELS = ("DATE", "LOC", "ORG", "PER")


@pytest.fixture(scope="module")
def perfect(perfect_pipeline: Callable[..., Any], method: str, kind: str) -> Any:
    """A pipeline that finds the gold it is given."""
    return perfect_pipeline(kind, method, labels=LABELS)


@pytest.fixture(scope="module")
def tagger(random_tagger: Callable[..., SpanNERPipeline], method: str, kind: str) -> SpanNERPipeline:
    """A pipeline on an untrained model that finds entities."""
    return random_tagger(method, kind)


def built(item: Case) -> str:
    """The text of a case, which is written out or built from its recipe."""
    recipe = item.get("build")
    return item["text"] if recipe is None else recipe["char"] * recipe["times"] + recipe["then"]


def named(entities: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entities with their fields named as the cases name them."""
    return [
        {"start": entity["start"], "end": entity["end"], "label": entity["entity_group"], "text": entity["word"]}
        for entity in entities
    ]


@pytest.mark.parametrize("case", ["T-01", "T-02", "T-03", "T-07", "T-08", "T-10"], indirect=True)
def test_entities_come_back_unchanged(case: Case, perfect: Any) -> None:
    for item, expected in zip(case["input"]["items"], case["expected"]["entities"], strict=True):
        began = time.process_time()
        assert named(perfect.run_text(built(item), item["entities"])) == expected
        assert time.process_time() - began < case["input"].get("max_seconds", 60)


@pytest.mark.parametrize("case", ["T-10"], indirect=True)
def test_special_strings_of_a_text_are_plain_text(case: Case, kind: str, encoder_folders: dict[str, Path]) -> None:
    """There are no more special tokens than for the text x, which has one before and one after, as every text has."""
    tokenizer = AutoTokenizer.from_pretrained(encoder_folders[kind])
    tokenize = WordTokenizer(tokenizer, 127)
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    for text in ["x", *map(built, case["input"]["items"])]:
        ids = tokenize([[text[start:end] for start, end in split_words(text)]])[0].ids
        assert special.isdisjoint(ids)
    assert len(tokenize.rules.prefix) == len(tokenize.rules.suffix) == 1


@pytest.mark.parametrize("case", ["T-04"], indirect=True)
def test_words_without_tokens_shift_no_index(case: Case, perfect: Any, kind: str) -> None:
    """The tokenizers differ in which words have no token, never in which word is which; the case has WordPiece's."""
    reader = perfect.pipeline.reader
    tokenize = reader.word_tokenizer
    expected = zip(case["expected"]["spans"], case["expected"]["reported_unlearnable"], strict=True)
    for item, (spans, num_lost) in zip(case["input"]["items"], expected, strict=True):
        entities = [dict(zip(("start", "end", "label"), span, strict=True)) for span in item["spans"]]
        row = {"tokens": item["tokens"], "entities": entities}
        _, report = window_rows([row], reader, perfect.model.config.label2id)
        answer = perfect.run(item["tokens"], item["spans"], pretokenized=True)
        bounds = tokenize([item["tokens"]])[0].bounds
        has_token = [after > before for before, after in zip(bounds, bounds[1:], strict=False)]
        learnable = [span for span in item["spans"] if has_token[span[0]] and has_token[span[1] - 1]]
        assert [[entity["word_start"], entity["word_end"], entity["entity_group"]] for entity in answer] == learnable
        assert report.without_tokens == len(item["spans"]) - len(learnable)
        if kind == "wordpiece":
            assert (learnable, report.without_tokens) == (spans, num_lost)


@pytest.mark.parametrize("case", ["T-05"], indirect=True)
def test_blank_texts_give_nothing_and_shift_nothing(case: Case, tagger: SpanNERPipeline) -> None:
    texts, expected = case["input"]["texts"], case["expected"]
    alone = [tagger(text) for text in texts]
    assert [alone[place] for place in expected["must_be_empty_list"]] == [[]] * 5
    assert alone[0]
    for size in case["input"]["batch_sizes"]:
        answers = tagger(texts, batch_size=size)
        assert len(answers) == expected["n_outputs"]
        assert list(map(named, answers)) == list(map(named, alone))


@pytest.mark.parametrize("case", ["T-06"], indirect=True)
def test_entity_across_the_edge_of_a_window(
    case: Case, perfect_pipeline: Callable[..., Any], method: str, kind: str
) -> None:
    """The filler is a letter, since a case's word is one piece only for its own tokenizer; offsets move with it."""
    for item, expected in zip(case["input"]["items"], case["expected"]["entities"], strict=True):
        recipe = item["build"]
        text = " ".join(["a"] * recipe["n_before"] + [recipe["entity"]] + ["b"] * recipe["n_after"])
        perfect = perfect_pipeline(kind, method, window_size=item["capacity_units"], window_overlap=8)
        moved = recipe["n_before"] * (len(recipe["filler"]) - 1)
        entities = [{**entity, "start": entity["start"] - moved, "end": entity["end"] - moved} for entity in expected]
        assert named(perfect.run_text(text, entities)) == entities
        assert len(perfect.windows) > 2


@pytest.mark.parametrize("case", ["T-06"], indirect=True)
def test_entity_across_the_edge_of_the_whole_encoder(case: Case, perfect: Any) -> None:
    """At a limit of 512 tokens the default window is all that the encoder's positions allow."""
    limit = perfect.model.config.window_size
    assert limit == 512 - 2 - perfect.model.config.num_prompts
    for num_before in (limit - 1, limit, limit + 1):
        words = ["a"] * num_before + case["input"]["items"][0]["build"]["entity"].split() + ["a"] * 30
        entities = perfect.run(" ".join(words), [(num_before, num_before + 2, "PER")])
        assert [(entity["start"], entity["word"]) for entity in entities] == [(2 * num_before, "Mira Holt")]
        assert len(perfect.windows) > 1


@pytest.mark.parametrize("case", ["T-09"], indirect=True)
def test_pieces_with_a_blank_before_the_word(case: Case, perfect: Any) -> None:
    """The spans come from `trim_span` on the case's pieces, and from every tokenizer, whose pieces nothing asks for."""
    expected = zip(case["expected"]["char_spans"], case["expected"]["surfaces"], strict=True)
    for item, (span, surface) in zip(case["input"]["items"], expected, strict=True):
        text, (first, stop) = item["text"], item["piece_span"]
        start, end = item["offsets"][first][0], item["offsets"][stop - 1][1]
        assert list(trim_span(text, start, end)) == span
        entities = perfect.run_text(text, [{"start": span[0], "end": span[1], "label": "PER"}])
        assert [([entity["start"], entity["end"]], entity["word"]) for entity in entities] == [(span, surface)]

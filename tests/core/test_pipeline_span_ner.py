"""Any text and any words, long texts, settings of decoding, order of batches; tests/cases has the forms of input."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase
from transformers.pipelines.pt_utils import KeyDataset

from hf_spanner import (
    METHODS,
    SpanNERCollator,
    SpanNERModel,
    SpanNERPipeline,
    SpanNERTrainer,
    SpanNERTrainingArguments,
)
from hf_spanner.core import pipeline_span_ner
from hf_spanner.core.pipeline_span_ner import buffers, check_text
from hf_spanner.core.words import split_words, trim_span

ANA = "Ana met Bo"
KINDS = ("wordpiece", "bpe", "unigram")


@pytest.fixture(scope="module", params=METHODS)
def tagger(request: pytest.FixtureRequest, random_tagger: Callable[..., SpanNERPipeline]) -> SpanNERPipeline:
    """A pipeline on an untrained model of each method that finds entities."""
    return random_tagger(request.param)


@pytest.fixture
def trainer_arguments(tmp_path: Path) -> dict[str, Any]:
    """The arguments of a trainer that only predicts."""
    return {
        "output_dir": str(tmp_path),
        "eval_strategy": "no",
        "save_strategy": "no",
        "load_best_model_at_end": False,
        "use_cpu": True,
        "disable_tqdm": True,
        "report_to": "none",
    }


def spans(entities: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    """Entities without their scores."""
    return [(entity["start"], entity["end"], entity["entity_group"]) for entity in entities]


def assert_same(answers: list[list[dict[str, Any]]], expected: list[list[dict[str, Any]]]) -> None:
    """Entities are equal and in the same order, and scores are equal to 1e-5."""
    assert list(map(spans, answers)) == list(map(spans, expected))
    for entities, expected_entities in zip(answers, expected, strict=True):
        assert [entity["score"] for entity in entities] == pytest.approx(
            [entity["score"] for entity in expected_entities], abs=1e-5
        )


def test_check_of_words() -> None:
    check_text(["Ana"], True, 0)
    check_text([], True, 0)
    for item in ("Ana", ["Ana", 3], None):
        with pytest.raises(TypeError, match="position 4 must be a list of words"):
            check_text(item, True, 4)


def test_torch_data_sets_are_read(tagger: SpanNERPipeline) -> None:
    """One is the library's own view of a column, which has no iterator."""
    rows = Dataset.from_list([{"text": ANA}, {"text": ""}, {"text": "Oslo"}])
    assert tagger(KeyDataset(rows, "text")) == tagger([ANA, "", "Oslo"])


def test_the_position_counts_over_buffers(tagger: SpanNERPipeline) -> None:
    texts = iter([""] * 40 + [None])
    answers = tagger(texts, batch_size=1)
    with pytest.raises(TypeError, match="position 40"):
        list(answers)


def test_a_long_text_is_read_whole_and_each_entity_given_once(perfect_pipeline: Callable[..., Any]) -> None:
    perfect = perfect_pipeline(window_size=20, window_overlap=8)
    words = ["a", "Ana", "b"] * 60
    gold = [(place, place + 1, "PER") for place in range(1, 180, 3)]
    entities = perfect.run(" ".join(words), gold)
    assert [(entity["word_start"], entity["word_end"], entity["entity_group"]) for entity in entities] == gold
    assert all(entity["word"] == "Ana" for entity in entities)


def test_output_is_plain_and_sorted(tagger: SpanNERPipeline) -> None:
    text = "  Ana met\tBo Li in Oslo ."
    entities = tagger(text, overlap="any")
    assert json.loads(json.dumps(entities)) == entities
    assert entities == sorted(entities, key=lambda entity: (entity["start"], -entity["end"], entity["entity_group"]))
    for entity in entities:
        assert [type(entity[key]) for key in ("score", "start", "end", "word_start", "word_end")] == [float] + [int] * 4
        assert entity["word"] == text[entity["start"] : entity["end"]]
        assert 0 <= entity["score"] <= 1


def test_a_score_equal_to_the_threshold_stays(tagger: SpanNERPipeline) -> None:
    entities = tagger(ANA)
    lowest = min(entity["score"] for entity in entities)
    assert tagger(ANA, threshold=lowest) == entities
    assert len(tagger(ANA, threshold=min(1.0, lowest + 1e-9))) < len(entities)


def test_settings_at_construction_and_per_call_leave_the_configuration(
    tiny_model: Callable[..., SpanNERModel], tokenizer: PreTrainedTokenizerBase
) -> None:
    model = tiny_model()
    before = model.config.to_dict()
    plain, strict = (
        SpanNERPipeline(model=model, tokenizer=tokenizer, **settings) for settings in ({}, {"threshold": 1.0})
    )
    assert plain(ANA)
    assert strict(ANA) == []
    assert strict(ANA, threshold=0.0) == plain(ANA)
    assert strict(ANA) == []
    assert plain(ANA, threshold=1.0) == []
    assert len(plain(ANA, overlap="any")) >= len(plain(ANA, overlap="flat"))
    assert model.config.to_dict() == before


def test_a_promised_precision_takes_its_threshold_at_construction_and_per_call(
    tiny_model: Callable[..., SpanNERModel], tokenizer: PreTrainedTokenizerBase
) -> None:
    """A call's threshold or rate stands in for that of the construction."""
    model, text = tiny_model(overlap="any"), "The University of New York opened ."
    model.config.temperature = 1.5
    scores = sorted({entity["score"] for entity in SpanNERPipeline(model=model, tokenizer=tokenizer)(text)})
    middle = scores[len(scores) // 2]
    entries = [{"target": 0.9, "all": middle, "per_label": {}}, {"target": 0.95, "all": 1.0, "per_label": {}}]
    model.config.temperature = 1.0
    model.config.calibration = {
        "kind": "temperature",
        "all": {"temperature": 1.5},
        "per_label": {},
        "fitted_on": {"name": "dev", "num_rows": 1, "fingerprint": "ab"},
        "promises": {"delta": 0.05, "decoding": {"overlap": "any"}, "precision": entries, "recall": []},
    }
    plain, strict = (
        SpanNERPipeline(model=model, tokenizer=tokenizer, **settings) for settings in ({}, {"min_precision": 0.95})
    )
    entities = plain(text)
    better = [entity for entity in entities if entity["score"] >= middle]
    assert 0 < len(better) < len(entities)
    assert plain(text, min_precision=0.9) == strict(text, min_precision=0.9) == better
    assert strict(text) == []
    assert strict(text, threshold=0.0) == entities
    assert SpanNERPipeline(model=model, tokenizer=tokenizer, threshold=1.0)(text, min_precision=0.9) == better
    with pytest.raises(ValueError, match="min_precision 0.99 cannot be promised for all labels"):
        plain(text, min_precision=0.99)


def test_unknown_and_absurd_settings_are_refused(tagger: SpanNERPipeline) -> None:
    for wrong, name in (({"treshold": 0.5}, "treshold"), ({"threshold": 2}, "threshold"), ({"overlap": 1}, "overlap")):
        with pytest.raises(ValueError, match=name):
            tagger(ANA, **wrong)
        with pytest.raises(ValueError, match=name):
            SpanNERPipeline(model=tagger.model, tokenizer=tagger.tokenizer, **wrong)


def test_batches_are_sorted_by_length_and_answers_are_not(
    tagger: SpanNERPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["a " * length for length in (9, 1, 8, 2, 7, 3)]
    alone = [tagger(text) for text in texts]
    widths = []
    encode = tagger.model.encode

    def noted(*inputs: torch.Tensor, **asked: Any) -> Any:
        widths.append(tuple(inputs[0].shape))
        return encode(*inputs, **asked)

    monkeypatch.setattr(tagger.model, "encode", noted)
    assert_same(tagger(texts, batch_size=2), alone)
    assert widths == [(2, 4), (2, 9), (2, 11)]


HARD = [
    "Ana",
    "met",
    "[SEP]",
    "</s>",
    "\u200b",
    "\ufe0f",
    "\u200d",
    "e\u0301",
    "\U0001f468",
    "\u5317",
    "\x00",
    " ",
    "\n",
]
HARD += ["", "\u3000", "\ud800", "\udfff", "-", ".", "'s", "\u0e41", "a" * 300]
CHARACTERS = st.one_of(st.characters(), st.characters(categories=["Cs"]), st.sampled_from(HARD))
TEXTS = st.lists(CHARACTERS, max_size=30).map("".join)
WORDS = st.lists(st.one_of(st.text(max_size=4), st.sampled_from(HARD)), max_size=12)


def assert_well_formed(entities: list[dict[str, Any]], surface: str, num_words: int) -> None:
    """Entities are in order and within the text and its words, and have the text's own characters."""
    assert entities == sorted(entities, key=lambda entity: (entity["start"], -entity["end"], entity["entity_group"]))
    for entity in entities:
        assert 0 <= entity["start"] < entity["end"] <= len(surface)
        assert 0 <= entity["word_start"] < entity["word_end"] <= num_words
        assert entity["word"] == surface[entity["start"] : entity["end"]]
        assert 0 <= entity["score"] <= 1


@pytest.fixture(scope="module")
def narrow_taggers(
    random_tagger: Callable[..., SpanNERPipeline], tagger: SpanNERPipeline
) -> dict[str, SpanNERPipeline]:
    """For each kind of tokenizer, a pipeline of the method with windows of 24 tokens."""
    method = tagger.model.config.model_type
    return {kind: random_tagger(method, kind, window_size=24, window_overlap=8) for kind in KINDS}


@given(text=TEXTS, kind=st.sampled_from(KINDS), overlap=st.sampled_from(["flat", "nested", "any"]))
def test_any_text_gives_spans_in_order_and_in_bounds(
    text: str, kind: str, overlap: str, narrow_taggers: dict[str, SpanNERPipeline]
) -> None:
    entities = narrow_taggers[kind](text, overlap=overlap)
    assert_well_formed(entities, text, len(split_words(text)))
    assert all(
        (entity["start"], entity["end"]) == trim_span(text, entity["start"], entity["end"]) for entity in entities
    )


@given(words=WORDS, kind=st.sampled_from(KINDS), overlap=st.sampled_from(["flat", "nested", "any"]))
def test_any_words_give_spans_in_order_and_in_bounds(
    words: list[str], kind: str, overlap: str, narrow_taggers: dict[str, SpanNERPipeline]
) -> None:
    (entities,) = narrow_taggers[kind]([words], pretokenized=True, overlap=overlap)
    assert_well_formed(entities, " ".join(words), len(words))
    assert all(entity["word"] == " ".join(words[entity["word_start"] : entity["word_end"]]) for entity in entities)


@given(words=st.lists(st.sampled_from(["Ana", "met", "Bo", ".", "a"]), min_size=1, max_size=20))
def test_a_text_that_fits_a_window_is_read_as_by_the_model_alone(
    words: list[str], tagger: SpanNERPipeline, narrow_taggers: dict[str, SpanNERPipeline]
) -> None:
    """The merge of windows has no part in it, however wide the window is."""
    (entities,) = tagger([words], pretokenized=True)
    batch = SpanNERCollator(tagger.tokenizer, tagger.model.config.label2id)([{"tokens": words}])
    with torch.no_grad():
        (decoded,) = tagger.model.decode(tagger.model(**batch))
    id2label = tagger.model.config.id2label
    assert [
        (entity["word_start"], entity["word_end"], entity["entity_group"], entity["score"]) for entity in entities
    ] == [(span.start, span.end, id2label[span.label], pytest.approx(span.score, abs=1e-5)) for span in decoded]
    narrow = narrow_taggers["wordpiece"]
    if len(batch["input_ids"][0]) - 2 <= narrow.model.config.window_size:
        assert_same(narrow([words], pretokenized=True), [entities])


@pytest.fixture(scope="module")
def perfect_pipelines(perfect_pipeline: Callable[..., Any], tagger: SpanNERPipeline) -> dict[tuple[str, str], Any]:
    """For each tokenizer and overlap, a pipeline of the method that finds gold, with windows of 12 tokens."""
    method, narrow = tagger.model.config.model_type, {"window_size": 12, "window_overlap": 6}
    keys = [(kind, overlap) for kind in KINDS for overlap in ("flat", "nested")]
    return {(kind, overlap): perfect_pipeline(kind, method, overlap=overlap, **narrow) for kind, overlap in keys}


@given(
    num_words=st.integers(1, 40),
    borders=st.lists(
        st.tuples(st.integers(0, 39), st.integers(1, 6), st.sampled_from(["LOC", "ORG", "PER"])), max_size=9
    ),
    kind=st.sampled_from(KINDS),
    overlap=st.sampled_from(["flat", "nested"]),
)
def test_gold_comes_back_wherever_the_windows_lie(
    num_words: int,
    borders: list[tuple[int, int, str]],
    kind: str,
    overlap: str,
    perfect_pipelines: dict[tuple[str, str], Any],
) -> None:
    """Gold becomes the method's targets, perfect scores, candidates and entities; none is longer than the overlap."""
    gold: list[tuple[int, int, str]] = []
    for start, length, label in borders:
        words = set(range(start, start + length))
        others = [set(range(a, b)) for a, b, _ in gold]
        is_nested = all(words.isdisjoint(other) or words < other or words > other for other in others)
        is_kept = is_nested if overlap == "nested" else all(map(words.isdisjoint, others))
        if is_kept and start + length <= num_words:
            gold.append((start, start + length, label))
    entities = perfect_pipelines[kind, overlap].run(" ".join(["a"] * num_words), gold)
    assert [(entity["word_start"], entity["word_end"], entity["entity_group"]) for entity in entities] == sorted(
        gold, key=lambda span: (span[0], -span[1])
    )


def test_each_step_of_the_library_works_on_one_text(tagger: SpanNERPipeline) -> None:
    """`preprocess`, `forward` and `postprocess` one by one, and `run_single`, give what a call gives."""
    text = "Ana met Bo Li in Oslo ."
    item = tagger.preprocess(text)
    assert item["surface"] == text
    assert [text[start:end] for start, end in item["offsets"]] == text.split()
    expected = tagger(text, threshold=0.1)
    assert tagger.postprocess(tagger.forward(item, threshold=0.1)) == expected
    assert tagger.run_single(text, {}, {"threshold": 0.1}, {}) == expected
    assert tagger.run_single(text.split(), {"pretokenized": True}, {"threshold": 0.1}, {}) == expected


DOCUMENTS = ["one", "one", "two", "two", "two", None, None, "three"]
SENTENCES = [["Ana", "met", "Bo"], ["Oslo"], ["it", "rained"], ["the"], ["Mira"], ["Bo"], ["a"], ["Lake", "Tarn"]]


@pytest.fixture(scope="module")
def context_tagger(random_tagger: Callable[..., SpanNERPipeline], tagger: SpanNERPipeline) -> SpanNERPipeline:
    """A pipeline of the method that reads two neighbouring sentences on each side."""
    return random_tagger(tagger.model.config.model_type, context_sentences=2, overlap="any")  # no ties to break


def test_neighbouring_sentences_are_read_as_by_the_trainer(
    context_tagger: SpanNERPipeline, trainer_arguments: dict[str, Any]
) -> None:
    rows = [
        {"tokens": words, "entities": [], "document": document}
        for words, document in zip(SENTENCES, DOCUMENTS, strict=True)
    ]
    trainer = SpanNERTrainer(
        model=context_tagger.model,
        args=SpanNERTrainingArguments(**trainer_arguments),
        processing_class=context_tagger.tokenizer,
    )
    expected = trainer.predict(rows).predictions
    answers = context_tagger(SENTENCES, documents=DOCUMENTS, pretokenized=True)
    assert [
        [
            (entity["word_start"], entity["word_end"], entity["entity_group"], pytest.approx(entity["score"], abs=1e-5))
            for entity in row
        ]
        for row in answers
    ] == [[tuple(entity.values()) for entity in row] for row in expected]
    alone = context_tagger(SENTENCES, pretokenized=True)
    assert answers[:5] != alone[:5]
    assert_same(answers[5:], alone[5:])


@pytest.mark.parametrize("buffered", [1, 2, 3, 5, 8])
def test_context_reaches_over_the_borders_of_buffers(
    context_tagger: SpanNERPipeline, buffered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = context_tagger(SENTENCES, documents=DOCUMENTS, pretokenized=True)
    monkeypatch.setattr(pipeline_span_ner, "BUFFERED_BATCHES", buffered)
    lazy = context_tagger(iter(SENTENCES), documents=iter(DOCUMENTS), pretokenized=True, batch_size=1)
    assert_same(list(lazy), whole)


def test_as_many_documents_as_texts(context_tagger: SpanNERPipeline) -> None:
    with pytest.raises(ValueError, match="documents must be as many as the 2 texts, got 1"):
        context_tagger(["Ana", "Bo"], documents=["one"])
    with pytest.raises(ValueError, match="documents goes with a list of texts"):
        context_tagger("Ana", documents=["one"])
    for documents in (["one"], ["one"] * 3):
        with pytest.raises(ValueError, match="zip"):
            list(context_tagger(iter(["Ana", "Bo"]), documents=iter(documents)))


@given(num_items=st.integers(0, 20), size=st.integers(1, 6), reach=st.integers(0, 4), num_before=st.integers(0, 4))
def test_buffers_are_slices_with_their_neighbours(num_items: int, size: int, reach: int, num_before: int) -> None:
    items, before = list(range(num_items)), list(range(-min(num_before, reach), 0))
    row = [*before, *items]
    slices = list(buffers(iter(items), size, reach, before))
    assert [item for _, buffer, _ in slices for item in buffer] == items
    for earlier, buffer, later in slices:
        place = len(before) + buffer[0]
        assert len(buffer) == min(size, num_items - buffer[0])
        assert earlier == row[max(0, place - reach) : place]
        assert later == row[place + len(buffer) : place + len(buffer) + reach]

"""From words to spans: owners, merge of windows, order of batches, context, and a stand-in for a model."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerBase

from hf_spanner import SpanNERModel, SpanNERPipeline, SpanNERTrainer
from hf_spanner.core import configuration_span_ner, prediction
from hf_spanner.core.decoding import Decoding
from hf_spanner.core.features import Window, plan_windows
from hf_spanner.core.prediction import (
    TextReader,
    graph_tables,
    merge_windows,
    predicted_spans,
    tables_by_sentence,
    window_owners,
)
from hf_spanner.core.spans import PADDING, Span
from hf_spanner.methods import training_arguments_of

PLANS = st.tuples(st.lists(st.integers(0, 5), max_size=40), st.integers(5, 12), st.integers(5, 11)).filter(
    lambda plan: plan[2] < plan[1]
)


def bounds_of(counts: list[int]) -> list[int]:
    """Token bounds of words with the given counts of tokens."""
    return [sum(counts[:place]) for place in range(len(counts) + 1)]


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
    merged = merge_windows(tables, windows, CONFIG, FLAT)
    assert merged == [Span(place, place + 1, 0, 0.5) for place in range(len(counts))]


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
    merged = merge_windows([packed((2, 4, 0, 0.25)), packed((0, 2, 1, 0.75))], windows, CONFIG, FLAT)
    assert merged == [Span(2, 4, 0, 0.25)]


def test_overlaps_are_resolved_before_the_threshold_acts() -> None:
    """After calibration the threshold takes the best candidate away; what that one pushed out stays out."""
    table = packed((0, 3, 0, 0.75), (1, 2, 1, 0.5))
    config = {**CONFIG, "calibration": {"all": {"temperature": 2.0}, "per_label": {}}}
    calibrated = merge_windows([table], [Window(0, 3)], config, FLAT)
    # logit(0.75) = ln 3; halved, sigmoid(ln(3) / 2) = sqrt(3) / (1 + sqrt(3))
    assert calibrated == [Span(0, 3, 0, pytest.approx(3**0.5 / (1 + 3**0.5)))]
    assert merge_windows([table], [Window(0, 3)], config, {**FLAT, "threshold": 0.64}) == []
    assert len(merge_windows([table], [Window(0, 3)], config, {**FLAT, "threshold": 0.63})) == 1


def test_maps_of_labels_act_after_the_overlaps_and_before_the_threshold() -> None:
    """The raw 0.75 of A pushes B out although B's map would lift it above; then A's map takes it below 0.5."""
    table = packed((0, 3, 0, 0.75), (1, 2, 1, 0.5), (4, 5, 1, 0.25))
    maps = {"A": {"scores": [0.0], "probabilities": [0.4]}, "B": {"scores": [0.0], "probabilities": [0.9]}}
    config = {**CONFIG, "calibration": {"all": {"temperature": 1.0}, "per_label": maps}}
    assert merge_windows([table], [Window(0, 5)], config, FLAT) == [Span(0, 3, 0, 0.4), Span(4, 5, 1, 0.9)]
    assert merge_windows([table], [Window(0, 5)], config, {**FLAT, "threshold": 0.5}) == [Span(4, 5, 1, 0.9)]


def test_a_score_equal_to_the_threshold_stays() -> None:
    table = packed((0, 1, 0, 0.5), (1, 2, 0, 0.4999))
    merged = merge_windows([table], [Window(0, 2)], CONFIG, {**FLAT, "threshold": 0.5})
    assert merged == [Span(0, 1, 0, 0.5)]


def test_each_label_may_have_a_threshold_of_its_own() -> None:
    table = packed((0, 1, 0, 0.5), (1, 2, 1, 0.5), (2, 3, 1, 0.75))
    merged = merge_windows([table], [Window(0, 3)], CONFIG, {**FLAT, "threshold": {"A": 0.5, "B": 0.625}})
    assert merged == [Span(0, 1, 0, 0.5), Span(2, 3, 1, 0.75)]


def test_overlaps_across_windows_are_resolved_once_per_text() -> None:
    """Each window has a candidate of its own; the two cross each other, and the better one stays."""
    windows = [Window(0, 4), Window(2, 4)]
    tables = [packed((1, 4, 0, 0.5)), packed((1, 3, 1, 0.75))]
    assert merge_windows(tables, windows, CONFIG, FLAT) == [Span(3, 5, 1, 0.75)]


WORDS = [["a"] * length for length in (9, 0, 30, 2, 7, 30, 3)]


@pytest.fixture
def reader(tiny_model: Callable[..., SpanNERModel], tokenizer: PreTrainedTokenizerBase) -> TextReader:
    return TextReader(tokenizer, tiny_model(window_size=12, window_overlap=4, context_sentences=1).config)


def test_any_function_of_a_batch_can_stand_for_a_model(reader: TextReader) -> None:
    """It makes one candidate a word from arrays alone; each comes back once, in the order of the texts."""

    def one_a_word(batch: dict[str, np.ndarray]) -> np.ndarray:
        assert all(isinstance(array, np.ndarray) for array in batch.values())
        num_words = batch["word_mask"].shape[1]
        places = np.arange(num_words)
        tables = np.stack([places, places + 1, 0 * places, 0 * places + 0.5], axis=-1).astype(np.float32)
        return np.where(batch["word_mask"][:, :, None], tables, np.float32(PADDING))

    for batch_size in (1, 3, 100):
        predicted = predicted_spans(
            reader.texts(WORDS), one_a_word, reader=reader, settings=CONFIG, decoding=FLAT, batch_size=batch_size
        )
        assert predicted == [[Span(place, place + 1, 0, 0.5) for place in range(len(words))] for words in WORDS]


def test_batches_go_from_short_to_long_and_leave_out_what_has_no_tokens(reader: TextReader) -> None:
    widths = []

    def nothing(batch: dict[str, np.ndarray]) -> np.ndarray:
        widths.append(batch["input_ids"].shape)
        return np.zeros((len(batch["input_ids"]), 0, 4), dtype=np.float32)

    predicted = predicted_spans(
        reader.texts(WORDS), nothing, reader=reader, settings=CONFIG, decoding=FLAT, batch_size=2
    )
    assert predicted == [[]] * len(WORDS)
    special = len(reader.word_tokenizer.rules.prefix) + len(reader.word_tokenizer.rules.suffix)
    # texts of 2, 3, 7 and 9 words, then two of 30, read in windows [0, 12), [8, 20), [16, 28) and [24, 30)
    assert [(rows, width - special) for rows, width in widths] == [(2, 3), (2, 9), (2, 12), (2, 12), (2, 12), (2, 12)]


def test_context_is_the_nearest_sentence_of_the_same_document(reader: TextReader) -> None:
    words = [["Ana"], ["met"], ["Bo"], ["in"]]
    ids = [text.tokens.ids for text in reader.texts(words)]
    texts = reader.texts(words, ["one", "one", "two", None])
    assert [(text.left, text.right) for text in texts] == [([], ids[1]), (ids[0], []), ([], []), ([], [])]
    assert all((text.left, text.right) == ([], []) for text in reader.texts(words))
    first = texts[0]
    batch = reader.batch([(first, first.windows[0])])
    special = len(reader.word_tokenizer.rules.prefix) + len(reader.word_tokenizer.rules.suffix)
    assert batch["input_ids"].shape == (1, special + len(ids[0]) + len(ids[1]))
    assert batch["word_index"].sum() == len(ids[0])


@pytest.mark.parametrize(
    ("documents", "is_told"), [(None, True), ([None, None], True), (["one", None], False), (["one", "two"], False)]
)
def test_context_without_any_document_is_told_once(
    reader: TextReader, documents: list | None, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(prediction.logger, "warning_once", told.append)
    reader.texts([["Ana"], ["met"]], documents)
    assert len(told) == is_told
    assert all("reads 1 neighbouring sentences" in message and "`document`" in message for message in told)
    reader.texts([["Ana"]])  # one text has no neighbours to name
    reader.context_sentences = 0
    reader.texts([["Ana"], ["met"]])
    assert len(told) == is_told


def test_settings_are_checked_once_for_a_corpus(
    tiny_model: Callable[..., SpanNERModel], reader: TextReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, made = tiny_model(window_size=12, window_overlap=4), []

    class Counted(Decoding):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(configuration_span_ner, "Decoding", Counted)
    decoding = model.decoding({"threshold": 0.1})
    predicted_spans(
        reader.texts(WORDS),
        model.candidate_function(decoding),
        reader=reader,
        settings=model.config.merge_settings(),
        decoding=decoding,
        batch_size=1,
    )
    assert made == [decoding]


def test_a_tokenizer_that_knows_more_tokens_than_the_encoder_is_refused_by_numbers(
    tiny_model: Callable[..., SpanNERModel], tokenizer: PreTrainedTokenizerBase
) -> None:
    """Refused before any training and any prediction; with a larger table the added token gets a vector of its own."""
    model, num_known = tiny_model(), len(tokenizer)
    tokenizer.add_tokens(["Zzyzx", "Qqqq"])
    message = rf"the tokenizer has {num_known + 2} tokens and the encoder vectors for {num_known}: .*resize"
    with pytest.raises(ValueError, match=message):
        TextReader(tokenizer, model.config)
    with pytest.raises(ValueError, match=message):
        SpanNERPipeline(model=model, tokenizer=tokenizer)
    arguments = training_arguments_of("boundary_smoothing")(
        output_dir="unused", use_cpu=True, eval_strategy="no", load_best_model_at_end=False
    )
    with pytest.raises(ValueError, match=message):
        SpanNERTrainer(model=model, args=arguments, train_dataset=[], processing_class=tokenizer)
    model.resize_token_embeddings(len(tokenizer))
    SpanNERPipeline(model=model, tokenizer=tokenizer)("Ana met Zzyzx")
    reader = TextReader(tokenizer, model.config)
    assert reader.texts([["Ana", "Zzyzx"]])[0].tokens.ids[-1] == num_known


def test_padding_without_a_padding_token_changes_no_answer(
    tiny_model: Callable[..., SpanNERModel], tokenizers_by_kind: dict[str, PreTrainedTokenizerBase]
) -> None:
    """The mask hides whatever token stands there."""
    tokenizer = tokenizers_by_kind["bpe"]
    model = tiny_model(kind="bpe", seed=4)
    model.get_parameter("biaffine.bias").data[-1] = -10.0
    texts = ["Ana met Bo in Oslo and then they walked", "Oslo"]
    expected = SpanNERPipeline(model=model, tokenizer=tokenizer)(texts)
    tokenizer.pad_token = None
    assert TextReader(tokenizer, model.config).word_tokenizer.rules.pad_token_id == 0
    answers = SpanNERPipeline(model=model, tokenizer=tokenizer)(texts)
    assert sum(map(len, expected)) > 1
    assert [[entity | {"score": 0} for entity in answer] for answer in answers] == [
        [entity | {"score": 0} for entity in answer] for answer in expected
    ]


def test_more_special_tokens_than_there_is_room_for_are_refused_by_numbers(
    tiny_model: Callable[..., SpanNERModel], tokenizer: PreTrainedTokenizerBase
) -> None:
    """The window of this model takes all 512 positions but two; a third special token would lie after the last."""
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="[CLS] [CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    with pytest.raises(ValueError, match="window_size must be at most 509 with a tokenizer that puts 3 .*, got 510"):
        TextReader(tokenizer, tiny_model().config)
    TextReader(tokenizer, tiny_model(window_size=509).config)


def test_tables_of_sentences_from_flat_rows() -> None:
    """Rows (sentence, start, end, label, score) in the order of sentences, of which some have none."""
    rows = np.array([[1, 0, 1, 0, 0.5], [1, 2, 3, 1, 0.25], [3, 0, 2, 0, 1.0]])
    tables = tables_by_sentence(rows, 5)
    assert [table.tolist() for table in tables] == [[], [[0, 1, 0, 0.5], [2, 3, 1, 0.25]], [], [[0, 2, 0, 1.0]], []]


@pytest.mark.parametrize(("num_words", "sizes"), [(10, [3]), (200, [3]), (256, [2, 1]), (1000, [1, 1, 1])])
def test_a_graph_is_run_on_as_many_windows_as_its_pairs_allow(num_words: int, sizes: list[int]) -> None:
    """2^17 pairs are 3 windows of 200 words, 2 of 256, and 1 of any length; the tables are those of one run."""
    seen = []

    def graph(part: Mapping[str, np.ndarray]) -> np.ndarray:
        seen.append(len(part["word_mask"]))
        return np.array([[row, *part["marks"][row], 0, 0, 0.5] for row in range(len(part["marks"]))])

    batch = {"word_mask": np.ones((3, num_words), dtype=bool), "marks": np.arange(3)[:, None]}
    assert [table[0, 0] for table in graph_tables(graph, batch)] == [0, 1, 2]
    assert seen == sizes

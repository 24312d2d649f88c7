"""Every form of input, batches, long texts, decoding settings, threads and precision."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import GeneratorType
from typing import Any

import pytest
import torch
from datasets import Dataset
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from hf_spanner import METHODS, SpanNERCollator, SpanNERModel, SpanNERPipeline
from hf_spanner.core.pipeline_span_ner import check_text

KEYS = {"entity_group", "score", "word", "start", "end", "word_start", "word_end"}
ANA, OSLO = "Ana met Bo", "Oslo"


TAUGHT: dict[str, dict[str, Tensor]] = {}  # weights of each method after a short training


@pytest.fixture(params=METHODS)
def tagger(
    request: pytest.FixtureRequest,
    tiny_model: Callable[..., SpanNERModel],
    tokenizer: PreTrainedTokenizerBase,
    rows: list[dict[str, Any]],
) -> SpanNERPipeline:
    """A pipeline on a tiny model of each method that was trained until it finds entities in both short texts."""
    model = tiny_model(request.param)
    pipe = SpanNERPipeline(model=model, tokenizer=tokenizer)
    if request.param not in TAUGHT:
        teach(model, SpanNERCollator(tokenizer, model.config.label2id)(rows), lambda: all(pipe([ANA, OSLO])))
        TAUGHT[request.param] = model.state_dict()
    model.load_state_dict(TAUGHT[request.param])
    return pipe


def teach(model: SpanNERModel, batch: dict[str, Tensor], is_enough: Callable[[], bool]) -> None:
    """Steps on one batch, at most 1,000, until the condition holds; no dropout; leaves the model in evaluation mode."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(100):
        model.train()
        for _ in range(10):
            optimizer.zero_grad()
            model(**batch).loss.backward()
            optimizer.step()
        model.eval()
        if is_enough():
            return
    raise AssertionError("1,000 steps taught no entity")


def spans(entities: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    """Entities without scores."""
    return [(one["start"], one["end"], one["entity_group"]) for one in entities]


def assert_same(found: list[list[dict[str, Any]]], expected: list[list[dict[str, Any]]]) -> None:
    """Equal entities in the same order, scores to 1e-5."""
    assert list(map(spans, found)) == list(map(spans, expected))
    for of_text, others in zip(found, expected, strict=True):
        assert [one["score"] for one in of_text] == pytest.approx([one["score"] for one in others], abs=1e-5)


def test_one_text_is_a_list_and_several_are_a_list_of_lists(tagger: SpanNERPipeline) -> None:
    """I-02, items 0, 1, 2, 3, 4."""
    ana, oslo = tagger(ANA), tagger(OSLO)
    assert isinstance(ana, list)
    assert ana
    assert set(ana[0]) == KEYS
    assert_same(tagger([ANA]), [ana])
    assert_same(tagger([ANA, OSLO]), [ana, oslo])
    assert_same(tagger((ANA, OSLO)), [ana, oslo])
    assert tagger([]) == []
    assert tagger("") == []


def test_a_column_is_a_list_of_texts(tagger: SpanNERPipeline) -> None:
    """I-02, item 6."""
    column = Dataset.from_dict({"text": [ANA, OSLO]})["text"]
    found = tagger(column, batch_size=2)
    assert isinstance(found, list)
    assert_same(found, tagger([ANA, OSLO]))


def test_a_generator_is_read_lazily(tagger: SpanNERPipeline) -> None:
    """I-02, item 5: the first answer comes before the end of an endless input."""
    num_read = 0

    def texts() -> Iterator[str]:
        nonlocal num_read
        while True:
            num_read += 1
            yield ANA if num_read % 2 else OSLO

    answers = tagger(texts(), batch_size=1)
    assert isinstance(answers, GeneratorType)
    assert num_read == 0
    assert_same([next(answers), next(answers)], tagger([ANA, OSLO]))
    assert num_read <= 32
    assert list(tagger(text for text in ())) == []


def test_words_need_the_switch(perfect_pipeline: Callable[..., Any]) -> None:
    """I-02, items 7 and 8: characters count in the words joined by blanks."""
    perfect = perfect_pipeline()
    (found,) = perfect.run([["Ana", "met", "Bo"]], [(0, 1, "PER"), (2, 3, "PER")], pretokenized=True)
    assert [(one["start"], one["end"], one["word_start"], one["word_end"], one["word"]) for one in found] == [
        (0, 3, 0, 1, "Ana"),
        (8, 10, 2, 3, "Bo"),
    ]
    tagger = perfect.pipeline
    with pytest.raises(TypeError, match="position 0 is a list; for lists of words give pretokenized=True"):
        tagger([["Ana", "met", "Bo"], ["Oslo"]])
    assert len(tagger([["Ana"], []], pretokenized=True)) == 2


@pytest.mark.parametrize(
    ("item", "position"), [(None, 0), (3, 0), (b"Ana", 0), ({"text": "Ana"}, 0), (["Ana", None], 1), ([b"Ana"], 0)]
)
def test_what_is_no_text_is_named_by_its_position(item: Any, position: int, tagger: SpanNERPipeline) -> None:
    """I-02, item 9."""
    with pytest.raises(TypeError, match=f"position {position} must be a text, got"):
        tagger(item)


def test_check_of_words() -> None:
    check_text(["Ana"], True, 0)
    check_text([], True, 0)
    for item in ("Ana", ["Ana", 3], None):
        with pytest.raises(TypeError, match="position 4 must be a list of words"):
            check_text(item, True, 4)


def test_the_position_counts_over_buffers(tagger: SpanNERPipeline) -> None:
    texts = iter([""] * 40 + [None])
    answers = tagger(texts, batch_size=1)
    with pytest.raises(TypeError, match="position 40"):
        list(answers)


def test_answers_do_not_depend_on_neighbours(tagger: SpanNERPipeline, cases: Callable[[str], dict[str, Any]]) -> None:
    """I-01."""
    case = cases("I-01")
    texts = case["input"]["texts"]
    alone = [tagger(text) for text in texts]
    assert any(alone)
    for size in case["input"]["batch_sizes"]:
        assert_same(tagger(texts, batch_size=size), alone)
        assert_same(tagger(texts[::-1], batch_size=size), alone[::-1])


def test_blank_texts_give_nothing_and_shift_nothing(
    tagger: SpanNERPipeline, cases: Callable[[str], dict[str, Any]]
) -> None:
    """T-05."""
    case = cases("T-05")
    texts, expected = case["input"]["texts"], case["expected"]
    alone = [tagger(text) for text in texts]
    assert [alone[place] for place in expected["must_be_empty_list"]] == [[]] * 5
    for size in case["input"]["batch_sizes"]:
        found = tagger(texts, batch_size=size)
        assert len(found) == expected["n_outputs"]
        assert_same(found, alone)


def test_a_long_text_is_read_whole_and_each_entity_given_once(perfect_pipeline: Callable[..., Any]) -> None:
    perfect = perfect_pipeline(window_size=20, window_overlap=8)
    words = ["a", "Ana", "b"] * 60
    gold = [(place, place + 1, "PER") for place in range(1, 180, 3)]
    found = perfect.run(" ".join(words), gold)
    assert [(one["word_start"], one["word_end"], one["entity_group"]) for one in found] == gold
    assert all(one["word"] == "Ana" for one in found)


def test_output_is_plain_and_sorted(tagger: SpanNERPipeline) -> None:
    text = "  Ana met\tBo Li in Oslo ."
    found = tagger(text, overlap="any")
    assert json.loads(json.dumps(found)) == found
    assert found == sorted(found, key=lambda one: (one["start"], -one["end"], one["entity_group"]))
    for one in found:
        assert [type(one[key]) for key in ("score", "start", "end", "word_start", "word_end")] == [float] + [int] * 4
        assert one["word"] == text[one["start"] : one["end"]]
        assert 0 <= one["score"] <= 1


def test_a_score_equal_to_the_threshold_stays(tagger: SpanNERPipeline) -> None:
    found = tagger(ANA)
    lowest = min(one["score"] for one in found)
    assert tagger(ANA, threshold=lowest) == found
    assert len(tagger(ANA, threshold=min(1.0, lowest + 1e-9))) < len(found)


def test_settings_at_construction_and_per_call_leave_the_configuration(
    tiny_model: Callable[..., SpanNERModel], tokenizer: PreTrainedTokenizerBase
) -> None:
    model = tiny_model()
    before = model.config.to_dict()
    plain, strict = (SpanNERPipeline(model=model, tokenizer=tokenizer, **given) for given in ({}, {"threshold": 1.0}))
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
    scores = sorted({one["score"] for one in SpanNERPipeline(model=model, tokenizer=tokenizer)(text)})
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
        SpanNERPipeline(model=model, tokenizer=tokenizer, **given) for given in ({}, {"min_precision": 0.95})
    )
    found = plain(text)
    better = [one for one in found if one["score"] >= middle]
    assert 0 < len(better) < len(found)
    assert plain(text, min_precision=0.9) == strict(text, min_precision=0.9) == better
    assert strict(text) == []
    assert strict(text, threshold=0.0) == found
    assert SpanNERPipeline(model=model, tokenizer=tokenizer, threshold=1.0)(text, min_precision=0.9) == better
    with pytest.raises(ValueError, match="min_precision 0.99 cannot be promised for all labels"):
        plain(text, min_precision=0.99)


def test_unknown_and_absurd_settings_are_refused(tagger: SpanNERPipeline) -> None:
    for given, name in (({"treshold": 0.5}, "treshold"), ({"threshold": 2}, "threshold"), ({"overlap": 1}, "overlap")):
        with pytest.raises(ValueError, match=name):
            tagger(ANA, **given)
        with pytest.raises(ValueError, match=name):
            SpanNERPipeline(model=tagger.model, tokenizer=tagger.tokenizer, **given)


def test_threads_share_a_pipeline(tagger: SpanNERPipeline) -> None:
    """I-04: texts of several lengths and settings at once; repeated calls are identical."""
    texts = [ANA, OSLO, "The University of New York opened .", "a b c " * 20]
    calls = [(text, threshold) for text in texts for threshold in (0.0, 0.5)] * 8
    alone = [tagger(text, threshold=threshold) for text, threshold in calls]
    assert alone[:8] == alone[8:16]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda call: tagger(call[0], threshold=call[1]), calls))
    assert_same(found, alone)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_works_on_a_cpu(
    dtype: torch.dtype, tiny_model: Callable[..., SpanNERModel], tokenizer: PreTrainedTokenizerBase
) -> None:
    """I-04."""
    found = SpanNERPipeline(model=tiny_model(seed=1).to(dtype), tokenizer=tokenizer)([ANA, "Mira Stone works"])
    assert any(found)
    assert all(0 <= one["score"] <= 1 for of_text in found for one in of_text)


def test_inference_is_without_dropout_and_gradients(
    tiny_model: Callable[..., SpanNERModel], tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I-04: a model handed over in training mode is put into evaluation mode."""
    model = tiny_model().train()
    tagger = SpanNERPipeline(model=model, tokenizer=tokenizer)
    modes = []
    forward = model.score_spans
    monkeypatch.setattr(
        model, "score_spans", lambda *given: modes.append((model.training, torch.is_grad_enabled())) or forward(*given)
    )
    assert tagger(ANA) == tagger(ANA)
    assert set(modes) == {(False, False)}


def test_batches_are_sorted_by_length_and_answers_are_not(
    tagger: SpanNERPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["a " * length for length in (9, 1, 8, 2, 7, 3)]
    alone = [tagger(text) for text in texts]
    widths = []
    encode = tagger.model.encode
    monkeypatch.setattr(tagger.model, "encode", lambda *given: widths.append(tuple(given[0].shape)) or encode(*given))
    assert_same(tagger(texts, batch_size=2), alone)
    assert widths == [(2, 4), (2, 9), (2, 11)]

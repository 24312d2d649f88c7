"""Requests of many through one model."""

import random
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from hf_spanner import SpanNERPipeline
from hf_spanner.integrations.shared_pipeline import BusyError, Question, SharedPipeline, checked_question

WORDS = ["Ana", "met", "Bo", "in", "Oslo", "and", "Mira", "Stone", "at", "the", "Bank", "of", "New", "York"]


class SlowPipeline:
    """In a pipeline's place: waits until it may run, notes the texts of each run, and finds each text in itself."""

    def __init__(self) -> None:
        self.runs: list[list[str]] = []
        self.has_begun, self.may_run = Event(), Event()

    def __call__(self, texts: list[str], *, documents: list[str | None], **settings: Any) -> list[list[str]]:
        self.has_begun.set()
        assert self.may_run.wait(10)
        self.runs.append(texts)
        if "bad" in texts:
            raise ZeroDivisionError("bad")
        return [[text] for text in texts]


def question(*texts: str, **settings: Any) -> Question:
    return Question(texts, [None] * len(texts), {"pretokenized": False, **settings}, is_single=False)


@pytest.fixture
def slow() -> SlowPipeline:
    return SlowPipeline()


def busy_with(slow: Any, max_waiting: int = 10) -> SharedPipeline:
    """A shared pipeline whose model is running."""
    shared = SharedPipeline(slow, max_waiting=max_waiting, max_together=3)
    shared.ask(question("first"))
    assert slow.has_begun.wait(10)
    return shared


def rounded(answers: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    return [[entity | {"score": pytest.approx(entity["score"], abs=1e-5)} for entity in found] for found in answers]


def test_answers_of_concurrent_requests_are_those_of_the_pipeline_alone(
    random_tagger: Callable[..., SpanNERPipeline],
) -> None:
    ner, drawn, runs = random_tagger("boundary_smoothing"), random.Random(0), []
    asked = []
    for _ in range(20):
        settings = {
            "threshold": drawn.choice([0.0, 0.4]),
            "overlap": drawn.choice(["flat", "nested"]),
            "pretokenized": drawn.random() < 0.5,
        }
        texts = [drawn.choices(WORDS, k=drawn.randrange(12)) for _ in range(drawn.randrange(4))]
        asked.append((texts if settings["pretokenized"] else [" ".join(words) for words in texts], settings))
    shared = SharedPipeline(ner, max_waiting=100, on_run=lambda num_texts, _: runs.append(num_texts))
    with ThreadPoolExecutor(8) as clients:
        futures = list(clients.map(lambda pair: shared.ask(checked_question(ner, *pair)), asked))
        answers = [future.result(10) for future in futures]
    shared.close()
    assert sum(map(len, answers)) == sum(runs) > len(runs)
    assert max(runs) > 3
    for (texts, settings), found in zip(asked, answers, strict=True):
        assert found == rounded(ner(texts, **settings))


def test_what_waits_goes_together_by_its_settings_up_to_some_number_of_texts(slow: SlowPipeline) -> None:
    shared = busy_with(slow)
    futures = [
        shared.ask(asked)
        for asked in (
            question("a", threshold=0.5),
            question("b"),
            question("c", "d", threshold=0.5),
            question("e", threshold=0.5),  # has no room any more
            question("f", "g", "h", "i"),  # more than that goes alone
            question("j"),
        )
    ]
    slow.may_run.set()
    shared.close()
    assert slow.runs == [["first"], ["a", "c", "d"], ["b", "j"], ["e"], ["f", "g", "h", "i"]]
    assert [future.result(0) for future in futures][2] == [["c"], ["d"]]


def test_a_question_that_fails_does_not_spoil_the_others(slow: SlowPipeline) -> None:
    shared = busy_with(slow)
    good, bad, late = (shared.ask(question(text)) for text in ("good", "bad", "late"))
    slow.may_run.set()
    shared.close()
    assert (good.result(0), late.result(0)) == ([["good"]], [["late"]])
    assert isinstance(bad.exception(0), ZeroDivisionError)


def test_the_model_is_spared_a_question_that_nobody_waits_for(slow: SlowPipeline) -> None:
    shared = busy_with(slow, max_waiting=1)
    assert shared.ask(question("gone")).cancel()
    assert (shared.num_waiting, shared.is_ready) == (0, True)
    shared.ask(question("here"))
    shared.close(0.01)  # waits no longer
    assert slow.runs == []
    slow.may_run.set()
    shared.close()
    assert slow.runs == [["first"], ["here"]]


def test_no_more_wait_than_may_and_none_after_the_end(slow: SlowPipeline) -> None:
    shared = busy_with(slow, max_waiting=2)
    futures: list[Future] = [shared.ask(question("a")), shared.ask(question("b"))]
    assert not shared.is_ready
    with pytest.raises(BusyError, match="2 requests are waiting"):
        shared.ask(question("c"))
    slow.may_run.set()
    shared.close()
    assert [future.result(0) for future in futures] == [[["a"]], [["b"]]]
    with pytest.raises(BusyError):
        shared.ask(question("d"))


def test_texts_of_another_request_are_no_context(random_tagger: Callable[..., SpanNERPipeline]) -> None:
    ner = random_tagger("boundary_smoothing", context_sentences=1)
    texts, names = ["Ana met Bo", "in Oslo at the Bank"], {"documents": ["d", "d"]}
    shared = SharedPipeline(ner, max_waiting=9)
    futures = [shared.ask(checked_question(ner, texts[::step], names)) for step in (1, -1, 1)]
    answers = [future.result(10) for future in futures]
    shared.close()
    assert answers == [rounded(ner(texts[::step], **names)) for step in (1, -1, 1)]
    assert ner(texts, **names)[1] != rounded(ner(texts[1:]))[0]  # so that a context would be seen


@pytest.mark.parametrize(
    ("inputs", "parameters"),
    [
        (["Ana", 3], {}),
        ([["Ana"]], {}),
        (["Ana"], {"pretokenized": True, "documents": ["d", "e"]}),
        ([["Ana", None]], {"pretokenized": True}),
        ("Ana", {"documents": ["d"]}),
        (["Ana"], {"documents": ["d", "e"]}),
        ("Ana", {"threshold": 1.5}),
        ("Ana", {"threshold": float("nan")}),
        ("Ana", {"threshold": {"LOC": 0.5}}),
        ("Ana", {"overlap": "partial"}),
        ("Ana", {"min_precision": 0.9}),
        ("Ana", {"steps": 3}),
    ],
)
def test_errors_are_those_of_the_pipeline(
    inputs: Any, parameters: dict[str, Any], random_tagger: Callable[..., SpanNERPipeline]
) -> None:
    ner = random_tagger("boundary_smoothing")
    with pytest.raises((ValueError, TypeError)) as of_the_pipeline:
        ner(inputs, **parameters)
    with pytest.raises(type(of_the_pipeline.value)) as found:
        checked_question(ner, inputs, parameters)
    assert str(found.value) == str(of_the_pipeline.value)


@pytest.mark.parametrize(
    ("inputs", "parameters", "message"),
    [
        (5, {}, "inputs must be a text or a list, got int"),
        ({"text": "Ana"}, {}, "inputs must be a text or a list, got dict"),
        ("Ana", {"pretokenized": "yes"}, "pretokenized must be one of False, True, got 'yes'"),
        (["Ana"], {"documents": "d"}, "documents must be a list, each a text or None, got 'd'"),
        (["Ana"], {"documents": [3]}, r"documents must be a list, each a text or None, got \[3\]"),
        ("Ana", {"batch_size": 9}, "unknown decoding parameter batch_size; allowed: threshold, overlap"),
        ("Ana", {"num_workers": 9}, "unknown decoding parameter num_workers"),
    ],
)
def test_what_a_request_may_not_set_is_refused_in_words(
    inputs: Any, parameters: dict[str, Any], message: str, random_tagger: Callable[..., SpanNERPipeline]
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        checked_question(random_tagger("boundary_smoothing"), inputs, parameters)


def test_what_costs_time_and_memory_stays_below_the_services_own(random_tagger: Callable[..., SpanNERPipeline]) -> None:
    own = {"num_steps": 2, "num_spans": 6, "num_draws": 1, "spans_per_word": 2.0}
    ner, lower = random_tagger("diffusion_ner", **own), {"num_spans": 3, "spans_per_word": 1}
    assert checked_question(ner, "Ana", lower).settings.items() > lower.items()
    assert checked_question(random_tagger("diffusion_ner"), "Ana", {"spans_per_word": 9})
    for name, asked in (*((name, highest + 1) for name, highest in own.items()), ("spans_per_word", 0)):
        message = f"{name} must be at most {own[name]}, with which the service began, got {asked}"
        with pytest.raises(ValueError, match=message):
            checked_question(ner, "Ana", {name: asked})

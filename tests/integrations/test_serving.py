"""The service over HTTP, driven without a socket; `tests/commands/test_serve.py` starts a real one."""

import asyncio
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient  # noqa: E402

from hf_spanner import SpanNERPipeline  # noqa: E402
from hf_spanner.commands.program import EXTRAS  # noqa: E402
from hf_spanner.integrations.serving import Limits, make_app  # noqa: E402
from hf_spanner.integrations.shared_pipeline import SharedPipeline, checked_question  # noqa: E402

ROOT = Path(__file__).parents[2]
TEXTS = ["Ana met Bo in Oslo .", "", "The University of New York opened", "half of a pair: \ud800"]
LIMITS = Limits(max_bytes=2000, max_texts=4, max_characters=100, max_waiting=2, max_seconds=30)


@pytest.fixture(scope="module")
def ner(random_tagger: Callable[..., SpanNERPipeline]) -> SpanNERPipeline:
    return random_tagger("boundary_smoothing")


@pytest.fixture(scope="module")
def client(ner: SpanNERPipeline) -> Iterator[TestClient]:
    with TestClient(make_app(ner, LIMITS), raise_server_exceptions=False) as client:
        yield client


def ask(client: TestClient, inputs: Any, **parameters: Any) -> Any:
    return client.post("/entities", content=json.dumps({"inputs": inputs, "parameters": parameters}), headers=JSON)


def rounded(answer: Any) -> Any:
    """Scores may differ in the last digits with the batch."""
    if isinstance(answer, list):
        return [rounded(item) for item in answer]
    return answer | {"score": pytest.approx(answer["score"], abs=1e-5)}


JSON = {"Content-Type": "application/json"}


def test_answers_are_those_of_the_pipeline(client: TestClient, ner: SpanNERPipeline) -> None:
    words = [text.split() for text in TEXTS]
    assert ask(client, TEXTS[0]).json() == rounded(ner(TEXTS[0]))
    assert ask(client, TEXTS).json() == rounded(ner(TEXTS))
    assert ask(client, TEXTS, threshold=0.43, overlap="nested").json() == rounded(
        ner(TEXTS, threshold=0.43, overlap="nested")
    )
    assert ask(client, words, pretokenized=True, documents=["d"] * 4).json() == rounded(ner(words, pretokenized=True))
    assert ask(client, words[0], pretokenized=True).json() == rounded(ner(words[0], pretokenized=True))
    assert ask(client, []).json() == []
    assert client.post("/entities", json={"inputs": TEXTS[0], "parameters": None}).json() == rounded(ner(TEXTS[0]))


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("", 422, "the body: Field required"),
        ("[1", 422, "the body is no JSON: Expecting ',' delimiter at character 2; allowed: inputs and parameters"),
        ("\x80", 400, "error parsing the body"),
        ("[" * 1500, 400, "error parsing the body"),
        ("7", 422, "the body: Input should be a valid dictionary"),
        ('{"text": "Ana"}', 422, r"inputs: Field required, .*text: Extra inputs are not permitted, got 'Ana'"),
        ('{"inputs": "Ana", "parameters": [1]}', 422, r"parameters: Input should be a valid dictionary, got \[1\]"),
        (json.dumps(dict.fromkeys("abcdefgh", 1)), 422, "(.*Extra inputs.*){4}; and 4 more; allowed: inputs"),
        ('{"inputs": 7}', 422, "inputs must be a text or a list, got int"),
        ('{"inputs": ["Ana", null]}', 422, "input at position 1 must be a text, got NoneType"),
        ('{"inputs": [["Ana"]]}', 422, "input at position 0 is a list; for lists of words give pretokenized=True"),
        ('{"inputs": "Ana", "parameters": {"threshold": 7}}', 422, r"threshold must be a number in \[0, 1\].*got 7"),
        ('{"inputs": "Ana", "parameters": {"threshold": NaN}}', 422, r"threshold must be a number.*got nan"),
        ('{"inputs": "Ana", "parameters": {"\\ud800": 1}}', 422, "unknown decoding parameter \ud800; allowed: thr"),
        ('{"inputs": "Ana", "parameters": {"min_precision": 0.9}}', 422, "min_precision needs a calibration"),
        ('{"inputs": ["a", "b", "c", "d", "e"]}', 413, "inputs must have at most 4 texts, got 5"),
        (json.dumps({"inputs": "a" * 101}), 413, "inputs must have at most 100 characters, got 101"),
        (
            '{"inputs": [%s""], "parameters": {"pretokenized": true}}' % ('"",' * 100),
            413,
            "at most 100 characters, got",
        ),
        (json.dumps({"inputs": "a" * 2000}), 413, "the body must have at most 2,000 bytes, got more"),
        (iter([b'{"inputs": "', *[b"a" * 500] * 4]), 413, "the body must have at most 2,000 bytes, got more"),
    ],
    ids=lambda value: f"{value:.20}" if isinstance(value, str) else None,
)
def test_what_is_malformed_or_too_large_is_refused_in_words(
    body: Any, status: int, message: str, client: TestClient
) -> None:
    content = body.encode("latin-1") if isinstance(body, str) else body
    response = client.post("/entities", content=content, headers=JSON)
    assert response.status_code == status
    assert re.search(message, response.json()["error"])


def test_other_paths_and_ways_are_refused_in_the_same_form(client: TestClient) -> None:
    assert client.get("/nothing").json() == {"error": "Not Found"}
    assert client.get("/entities").json() == {"error": "Method Not Allowed"}


def test_the_schema_says_what_this_model_takes(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    parameters = schema["components"]["schemas"]["Body"]["properties"]["parameters"]["properties"]
    assert parameters["overlap"]["enum"] == ["flat", "nested", "any"]
    assert parameters["threshold"]["default"] == 0.0
    assert {"min_precision", "min_recall", "pretokenized", "documents"} < set(parameters)
    assert "LOC, ORG, PER" in schema["info"]["description"]
    assert "max_bytes 2,000" in schema["info"]["description"]


def test_metrics_count_requests_texts_and_runs(ner: SpanNERPipeline) -> None:
    with TestClient(make_app(ner)) as client:
        ask(client, TEXTS)
        ask(client, 7)
        lines = client.get("/metrics").text.splitlines()
    numbers = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert numbers['span_ner_requests_total{status="200"}'] == "1.0"
    assert numbers['span_ner_requests_total{status="422"}'] == "1.0"
    assert numbers["span_ner_texts_total"] == "5.0"  # one of them is read before the first request
    assert numbers["span_ner_run_texts_count"] == "2.0"
    assert numbers["span_ner_waiting"] == "0.0"
    assert float(numbers["process_resident_memory_bytes"]) > 1e6


def test_a_service_that_is_full_says_so_and_answers_what_it_took(
    ner: SpanNERPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_run, has_begun, run = Event(), Event(), SpanNERPipeline._answers

    def held(*arguments: Any) -> Any:
        if arguments[1] and TEXTS[0] in arguments[1]:
            has_begun.set()
            may_run.wait(10)
        return run(*arguments)

    monkeypatch.setattr(SpanNERPipeline, "_answers", held)
    with TestClient(make_app(ner, LIMITS)) as client, ThreadPoolExecutor(3) as clients:
        first = clients.submit(ask, client, TEXTS[0])
        assert has_begun.wait(10)
        later = [clients.submit(ask, client, "Oslo") for _ in range(2)]
        assert any(client.get("/ready").status_code == 503 for _ in range(1000))
        refused = ask(client, "Oslo")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.json() == {"error": "2 requests are waiting, or the service is ending; try again later"}
        assert client.get("/health").json() == {"status": "alive"}
        may_run.set()
        assert [future.result(10).status_code for future in (first, *later)] == [200, 200, 200]
        assert client.get("/ready").json() == {"status": "ready"}


def test_who_waits_too_long_is_told_so(ner: SpanNERPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    may_run = Event()
    with TestClient(make_app(ner, Limits(max_seconds=0.05))) as client:
        monkeypatch.setattr(SpanNERPipeline, "_spans", lambda *_: may_run.wait(10))
        response = ask(client, "Oslo")
        may_run.set()
    assert (response.status_code, response.json()) == (503, {"error": "no answer within 0.05 seconds"})


def answer_to(app: Any, receive: Callable) -> tuple[dict[str, Any], dict[str, Any]]:
    """Head and body of the answer to what is received."""
    sent: asyncio.Queue = asyncio.Queue()
    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/entities", "headers": headers, "query_string": b""}
    asyncio.run(asyncio.wait_for(app(scope, receive, sent.put), 10))
    return sent.get_nowait(), sent.get_nowait()


def test_a_body_that_does_not_come_is_not_waited_for(ner: SpanNERPipeline) -> None:
    start, end = answer_to(make_app(ner, Limits(max_seconds=0.05)), asyncio.Event().wait)
    assert (start["status"], (b"connection", b"close") in start["headers"]) == (408, True)
    assert json.loads(end["body"]) == {"error": "no whole body within 0.05 seconds"}


def test_a_failure_of_the_model_is_counted_and_names_no_text(
    client: TestClient, ner: SpanNERPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        raise MemoryError("the text was Oslo")

    with monkeypatch.context() as patch:
        patch.setattr(SpanNERPipeline, "_spans", failing)
        response = ask(client, "Oslo")
    assert (response.status_code, response.json()) == (500, {"error": "the model could not answer: MemoryError"})
    assert 'span_ner_requests_total{status="500"} 1.0' in client.get("/metrics").text
    assert ask(client, "Oslo").status_code == 200


def test_the_extra_brings_what_the_command_needs() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    brought = {re.split(r"[>=]", requirement)[0].replace("-", "_") for requirement in extras["serve"]}
    assert brought == {package for package, extra in EXTRAS.items() if extra == "serve"}


def test_what_the_body_took_is_not_waited_again_for_the_answer(
    ner: SpanNERPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, may_run = [0.0], Event()
    monkeypatch.setattr("hf_spanner.integrations.serving.perf_counter", lambda: clock[0])
    monkeypatch.setattr(SpanNERPipeline, "_spans", lambda *_: may_run.wait(10))

    async def late() -> dict[str, Any]:
        clock[0] += 31
        return {"type": "http.request", "body": b'{"inputs": "Oslo"}'}

    start, body = answer_to(make_app(ner, LIMITS), late)
    may_run.set()
    assert (start["status"], json.loads(body["body"])) == (503, {"error": "no answer within 30 seconds"})


def test_an_answer_is_not_made_for_a_client_that_has_gone(
    ner: SpanNERPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun, may_run, read = Event(), Event(), []
    messages = iter([{"type": "http.request", "body": b'{"inputs": "Oslo"}'}, {"type": "http.disconnect"}])

    def held(_: Any, texts: Any, *__: Any) -> Any:
        if texts:
            read.append(texts)
            has_begun.set()
            may_run.wait(10)
        return iter(())

    async def receive() -> Any:
        return next(messages)

    monkeypatch.setattr(SpanNERPipeline, "_answers", held)
    shared = SharedPipeline(ner, max_waiting=2)
    monkeypatch.setattr("hf_spanner.integrations.serving.SharedPipeline", lambda *_, **__: shared)
    shared.ask(checked_question(ner, "first", {}))
    assert has_begun.wait(10)
    start, _ = answer_to(make_app(ner, LIMITS), receive)
    assert (start["status"], shared.num_waiting) == (499, 0)
    may_run.set()
    shared.close()
    assert len(read) == 1

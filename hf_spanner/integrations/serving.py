"""A model over HTTP, as `hf-spanner serve` runs it: requests and answers are those of Hugging Face's endpoints."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector
from pydantic import BaseModel, ConfigDict, TypeAdapter, WithJsonSchema
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hf_spanner.core.calibration import PROMISES
from hf_spanner.core.configuration_span_ner import VERSION
from hf_spanner.core.field_rules import ProbabilityByLabel, in_words
from hf_spanner.core.pipeline_span_ner import SpanNERPipeline
from hf_spanner.core.prediction import Entity
from hf_spanner.integrations.shared_pipeline import BusyError, SharedPipeline, checked_question

ENTITIES = "/entities"
TOGETHER = 32  # texts of several requests that are read together, at least
RETRY = {"Retry-After": "1"}
NUM_PROBLEMS = 5  # of a body, that are told
WORDS = {"type": "array", "items": {"type": "string"}}


@dataclass(frozen=True)
class Limits:
    """What one request may ask, and how long it may wait.

    Args:
        max_bytes: Bytes of its body.
        max_texts: Its texts.
        max_characters: Characters of its texts together.
        max_waiting: Requests that may wait for the model.
        max_seconds: Seconds until it is answered or refused.
    """

    max_bytes: int = 1_000_000
    max_texts: int = 256
    max_characters: int = 100_000
    max_waiting: int = 256
    max_seconds: float = 60.0


class FoundEntity(BaseModel):
    """An entity; `start` and `end` count characters, `word_start` and `word_end` words, half-open."""

    entity_group: str
    score: float
    word: str
    start: int
    end: int
    word_start: int
    word_end: int


class Failure(BaseModel):
    """Why there is no answer."""

    error: str


class AsciiResponse(JSONResponse):
    """JSON that can hold every text that JSON can ask about, halves of surrogate pairs too."""

    def render(self, content: Any) -> bytes:
        """The bytes of the body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


class Metrics:
    """What Prometheus is told."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        shared: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("span_ner_requests", "Answered requests by status.", ["status"], **shared)
        self.seconds = Histogram("span_ner_request_seconds", "Seconds from request to answer.", **shared)
        self.texts = Counter("span_ner_texts", "Texts read by the model.", **shared)
        self.run_texts = Histogram(
            "span_ner_run_texts", "Texts in one run of the model.", buckets=[2**n for n in range(9)], **shared
        )
        self.run_seconds = Histogram("span_ner_run_seconds", "Seconds of one run of the model.", **shared)
        self.waiting = Gauge("span_ner_waiting", "Requests that wait for the model.", **shared)

    def on_run(self, num_texts: int, seconds: float) -> None:
        """Count a run of the model."""
        self.texts.inc(num_texts)
        self.run_texts.observe(num_texts)
        self.run_seconds.observe(seconds)


class Doorkeeper:
    """Middleware that stops reading a body beyond the limits, and counts the requests for entities."""

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http" or scope["path"] != ENTITIES:
            await self.app(scope, receive, send)
            return
        num_bytes, begin, is_answered = 0, perf_counter(), False
        deadline = begin + self.limits.max_seconds
        scope.setdefault("state", {})["deadline"] = deadline  # of the body and of the answer

        def count(status: int) -> None:
            nonlocal is_answered
            is_answered = True
            self.metrics.requests.labels(status).inc()
            self.metrics.seconds.observe(perf_counter() - begin)

        async def limited() -> Message:
            nonlocal num_bytes
            try:
                message = await asyncio.wait_for(receive(), deadline - perf_counter())
            except TimeoutError as error:
                reason = f"no whole body within {self.limits.max_seconds} seconds"
                raise HTTPException(408, reason, {"Connection": "close"}) from error
            num_bytes += len(message.get("body", b""))
            if num_bytes > self.limits.max_bytes:
                raise HTTPException(413, f"the body must have at most {self.limits.max_bytes:,} bytes, got more")
            return message

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                count(message["status"])
            await send(message)

        try:
            await self.app(scope, limited, counted)
        except Exception:  # which `failed` answers outside of this
            if not is_answered:
                count(500)
            raise


def make_app(ner: SpanNERPipeline, limits: Limits | None = None) -> FastAPI:
    """The application; its lifespan runs one text through the model before it begins, and answers all that wait at end.

    Args:
        ner: The pipeline, with weights or an exported graph; its settings hold where a request names none.
        limits: Of requests.
    """
    limits = limits or Limits()
    metrics = Metrics()
    max_together = max(TOGETHER, ner.batch_size)
    shared = SharedPipeline(ner, max_waiting=limits.max_waiting, max_together=max_together, on_run=metrics.on_run)
    metrics.waiting.set_function(lambda: shared.num_waiting)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await asyncio.wrap_future(shared.ask(checked_question(ner, "Ana met Bo in Oslo.", {"pretokenized": False})))
        yield
        await asyncio.to_thread(shared.close, limits.max_seconds)

    app = FastAPI(title="hf_spanner", version=VERSION, description=described(ner, limits), lifespan=lifespan)
    app.add_middleware(Doorkeeper, limits=limits, metrics=metrics)
    app.add_exception_handler(HTTPException, in_one_form)
    app.add_exception_handler(RequestValidationError, malformed)
    app.add_exception_handler(Exception, failed)

    @app.get("/health")
    async def health() -> dict[str, str]:
        """The process answers."""
        return {"status": "alive"}

    @app.get("/ready", responses={503: {"model": Failure}})
    async def ready() -> dict[str, str]:
        """A request would be taken now."""
        if not shared.is_ready:
            raise HTTPException(503, f"{shared.num_waiting} requests are waiting, or the service is ending")
        return {"status": "ready"}

    @app.get("/metrics", response_class=Response)
    async def prometheus() -> Response:
        """Numbers for Prometheus."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    add_entities(app, ner, shared, limits)
    return app


def add_entities(app: FastAPI, ner: SpanNERPipeline, shared: SharedPipeline, limits: Limits) -> None:
    """Add the path that finds entities, with the schema of this model's parameters."""

    class Body(BaseModel):
        """What is asked."""

        model_config = ConfigDict(extra="forbid")
        inputs: Annotated[Any, WithJsonSchema(inputs_schema())]
        parameters: Annotated[dict[str, Any] | None, WithJsonSchema(parameters_schema(ner))] = None

    failures: dict[int | str, dict[str, Any]] = {
        status: {"model": Failure} for status in (400, 408, 413, 422, 500, 503)
    }

    @app.post(ENTITIES, response_model=list[FoundEntity] | list[list[FoundEntity]], responses=failures)
    async def entities(body: Body, request: Request) -> Response:
        """Entities of one text as a list, of several texts as a list of lists."""
        try:
            question = checked_question(ner, body.inputs, body.parameters or {})
        except (ValueError, TypeError) as error:
            raise HTTPException(422, str(error)) from error
        for name, number, highest in (
            ("texts", len(question.texts), limits.max_texts),
            ("characters", question.num_characters, limits.max_characters),
        ):
            if number > highest:
                raise HTTPException(413, f"inputs must have at most {highest:,} {name}, got {number:,}")
        try:
            coming = asyncio.wrap_future(shared.ask(question))
        except BusyError as error:
            raise HTTPException(503, str(error), RETRY) from error
        answers = await answered(coming, request, limits)
        return AsciiResponse(answers[0] if question.is_single else answers)


async def answered(coming: asyncio.Future, request: Request, limits: Limits) -> list[list[Entity]]:
    """The answers, for as long as there is time and the client stays; otherwise the model is spared the question."""
    gone = asyncio.ensure_future(hung_up(request))
    gone.add_done_callback(lambda task: task.cancelled() or task.exception())  # a deadline is the same one
    try:
        seconds = request.state.deadline - perf_counter()
        done, _ = await asyncio.wait({coming, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if coming in done:
            return coming.result()
        if gone in done and gone.exception() is None:
            raise HTTPException(499, "the client has gone")
        raise HTTPException(503, f"no answer within {limits.max_seconds} seconds", RETRY)
    finally:  # also where the request itself is cancelled
        gone.cancel()
        coming.cancel()


async def hung_up(request: Request) -> None:
    """Comes back once the connection has ended."""
    while (await request.receive())["type"] != "http.disconnect":
        await asyncio.sleep(0)


def described(ner: SpanNERPipeline, limits: Limits) -> str:
    """What the page of the interface says of this model."""
    labels = ", ".join(ner.model.config.label2id)
    values = ", ".join(f"{name} {value:,}" for name, value in asdict(limits).items())
    return f"Entities in texts, flat or nested, with scores. Labels: {labels}. Limits: {values}."


def inputs_schema() -> dict[str, Any]:
    """What may be asked about."""
    texts = [{"type": "string"}, {**WORDS, "description": "texts, or with pretokenized the words of one text"}]
    return {"anyOf": [*texts, {"type": "array", "items": WORDS, "description": "with pretokenized, words of texts"}]}


def parameters_schema(ner: SpanNERPipeline) -> dict[str, Any]:
    """The settings of inference of this model, each with what it may hold and its value here, and the pipeline's."""
    config, values = ner.model.config, ner.model.decoding(ner.settings)
    rules: dict[str, Any] = dict.fromkeys(PROMISES, ProbabilityByLabel)
    rules |= {name: config.field_rules[name] for name in config.decoding_parameters}
    properties = {
        name: TypeAdapter(rule).json_schema() | {"description": in_words(rule)} for name, rule in rules.items()
    }
    for name, value in values.items():
        properties[name]["default"] = value
    names = {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}
    own = {
        "pretokenized": {"type": "boolean", "default": ner.pretokenized, "description": "inputs are lists of words"},
        "documents": {**names, "description": "the document of each text, whose neighbours are read as context"},
    }
    return {"type": "object", "properties": properties | own, "additionalProperties": False}


async def in_one_form(_: Request, error: Any) -> Response:
    """A refusal in words."""
    return AsciiResponse({"error": error.detail}, error.status_code, error.headers)


async def malformed(_: Request, error: Any) -> Response:
    """What is wrong with a body, by field."""
    errors = error.errors()
    problems = [
        f"the body is no JSON: {problem['ctx']['error']} at character {problem['loc'][-1]}"
        if problem["type"] == "json_invalid"
        else f"{'.'.join(map(str, problem['loc'][1:])) or 'the body'}: {problem['msg']}, got {problem['input']!r:.200}"
        for problem in errors[:NUM_PROBLEMS]
    ]
    if len(errors) > NUM_PROBLEMS:
        problems.append(f"and {len(errors) - NUM_PROBLEMS} more")
    return AsciiResponse({"error": f"{'; '.join(problems)}; allowed: inputs and parameters"}, 422)


async def failed(_: Request, error: Exception) -> Response:
    """A failure of ours, of which the log says more."""
    return AsciiResponse({"error": f"the model could not answer: {type(error).__name__}"}, 500)

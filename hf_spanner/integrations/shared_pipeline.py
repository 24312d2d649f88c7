"""One thread that answers the requests of many: those that wait with equal settings go through the model together."""

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from threading import Condition, Thread
from time import perf_counter
from typing import Any

from hf_spanner.core.pipeline_span_ner import SpanNERPipeline, check_text
from hf_spanner.core.prediction import Entity

# Of DiffusionNER, whose time and memory grow with them; 0 is no limit.
COSTLY = {"num_steps", "num_spans", "spans_per_word", "num_draws"}


class BusyError(RuntimeError):
    """No question is taken now."""


@dataclass(frozen=True, eq=False)
class Question:
    """What a request asks, checked.

    Args:
        texts: Texts, or lists of words.
        documents: The document of each, or None.
        settings: Settings of inference, and `pretokenized`.
        is_single: Whether one text was given and no list of texts.
        answers: Comes to hold the entities of each text.
    """

    texts: Sequence[Any]
    documents: Sequence[str | None]
    settings: Mapping[str, Any]
    is_single: bool
    answers: Future = field(default_factory=Future)

    @cached_property
    def key(self) -> str:
        """What is equal for questions that may go through the model together."""
        return json.dumps(self.settings, sort_keys=True)

    @property
    def num_characters(self) -> int:
        """Characters of all texts; a word of a list counts one more, for the blank."""
        if self.settings["pretokenized"]:
            return sum(len(word) + 1 for words in self.texts for word in words)
        return sum(map(len, self.texts))


def checked_question(ner: SpanNERPipeline, inputs: object, parameters: Mapping[str, Any]) -> Question:
    """A question as a pipeline's call would take it, refused with the same errors.

    Args:
        ner: The pipeline that is to answer.
        inputs: A text, a list of texts, or with `pretokenized` lists of words.
        parameters: Settings of inference, `pretokenized` and `documents`, and no other argument of a pipeline's call.

    Raises:
        TypeError: If an input is no text.
        ValueError: If a parameter is unknown or out of range, or is costly and above the pipeline's own.
    """
    settings = {name: value for name, value in parameters.items() if name != "documents"}
    pretokenized = settings.pop("pretokenized", ner.pretokenized)
    if not isinstance(pretokenized, bool):
        raise ValueError(f"pretokenized must be one of False, True, got {pretokenized!r}")
    ner.model.decoding(settings)
    own = ner.model.decoding(ner.settings)
    for name in settings.keys() & COSTLY:
        asked = settings[name] or "0, which is no limit"
        if own[name] and (not settings[name] or settings[name] > own[name]):
            raise ValueError(f"{name} must be at most {own[name]}, with which the service began, got {asked}")
    settings["pretokenized"] = pretokenized
    ner([], **settings)  # checks them together with those of the pipeline
    if not isinstance(inputs, str | list):
        raise TypeError(f"inputs must be a text or a list, got {type(inputs).__name__}")
    is_single = isinstance(inputs, str) or (pretokenized and bool(inputs) and isinstance(inputs[0], str))
    texts = [inputs] if is_single else inputs
    for position, text in enumerate(texts):
        check_text(text, pretokenized, position)
    return Question(texts, checked_documents(parameters.get("documents"), texts, is_single), settings, is_single)


def checked_documents(documents: object, texts: Sequence[Any], is_single: bool) -> Sequence[str | None]:
    """The document of each text, None for all if none are given.

    Raises:
        ValueError: If they are not as many names as there are texts.
    """
    if documents is None:
        return [None] * len(texts)
    if is_single:
        raise ValueError("documents goes with a list of texts, got one text")
    if not isinstance(documents, list) or not all(name is None or isinstance(name, str) for name in documents):
        raise ValueError(f"documents must be a list, each a text or None, got {documents!r:.200}")
    if len(documents) != len(texts):
        raise ValueError(f"documents must be as many as the {len(texts)} texts, got {len(documents)}")
    return documents


class SharedPipeline:
    """A pipeline for many requests at once, whose model one thread runs.

    While it runs, questions gather; then the one that waits longest goes next, and with it those that have equal
    settings, up to some number of texts, which the pipeline sorts into batches. None waits for others to come. Texts of
    different questions are never context of each other.

    Args:
        ner: The pipeline.
        max_waiting: Most questions that wait.
        max_together: Most texts of several questions that are read together.
        on_run: Called after each run with the number of its texts and its seconds.
    """

    def __init__(
        self,
        ner: SpanNERPipeline,
        *,
        max_waiting: int,
        max_together: int = 32,
        on_run: Callable[[int, float], None] = lambda *_: None,
    ) -> None:
        self.ner, self.max_waiting, self.max_together, self.on_run = ner, max_waiting, max_together, on_run
        self._waiting: deque[Question] = deque()
        self._changed, self._closed = Condition(), False
        self._thread = Thread(target=self._work, name="model", daemon=True)
        self._thread.start()

    @property
    def num_waiting(self) -> int:
        """Questions that wait and that somebody waits for."""
        with self._changed:
            return sum(not question.answers.cancelled() for question in self._waiting)

    @property
    def is_ready(self) -> bool:
        """Whether a question would be taken now."""
        return self._thread.is_alive() and not self._closed and self.num_waiting < self.max_waiting

    def ask(self, question: Question) -> Future:
        """The answers to come; if the future is cancelled before its turn, the model is spared.

        Raises:
            BusyError: If no question is taken now.
        """
        with self._changed:
            if not self.is_ready:
                raise BusyError(f"{self.num_waiting} requests are waiting, or the service is ending; try again later")
            self._waiting = deque(waiting for waiting in self._waiting if not waiting.answers.cancelled())
            self._waiting.append(question)
            self._changed.notify()
        return question.answers

    def close(self, max_seconds: float | None = None) -> None:
        """Take no more questions, answer those that wait, and end the thread; leave it to itself after some seconds."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(max_seconds)

    def _work(self) -> None:
        while questions := self._next_questions():
            asked = [question for question in questions if question.answers.set_running_or_notify_cancel()]
            if asked:
                self._answer(asked)

    def _next_questions(self) -> list[Question]:
        """The next questions with equal settings, at least one; none once all is done."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            taken, num_texts, passed = [], 0, deque()
            for question in self._waiting:
                has_room = not taken or num_texts + len(question.texts) <= self.max_together
                if has_room and (not taken or question.key == taken[0].key):
                    taken.append(question)
                    num_texts += len(question.texts)
                else:
                    passed.append(question)
            self._waiting = passed
            return taken

    def _answer(self, questions: Sequence[Question]) -> None:
        """Answer some questions together; if that fails each alone, so that one cannot spoil the others."""
        texts = [text for question in questions for text in question.texts]
        documents = [
            None if name is None else f"{place} {name}"
            for place, question in enumerate(questions)
            for name in question.documents
        ]
        begin = perf_counter()
        try:
            answers: list[list[Entity]] = self.ner(texts, documents=documents, **questions[0].settings)
        except Exception as error:
            if len(questions) == 1:
                questions[0].answers.set_exception(error)
                return
            for question in questions:
                self._answer([question])
            return
        self.on_run(len(texts), perf_counter() - begin)
        remaining = iter(answers)
        for question in questions:
            question.answers.set_result(list(islice(remaining, len(question.texts))))

"""A spaCy component: `nlp.add_pipe("span_ner", config={"model": folder})`.

All entities stand in `doc.spans` with their scores, and those of them that do not overlap, best scores first, in
`doc.ents`. The model splits a text into words of its own; an entity that cuts a token of spaCy is widened to whole
tokens or dropped, as the settings say, and in either case it is counted and logged.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc, Span, SpanGroup
from spacy.util import minibatch
from transformers import AutoModel, AutoTokenizer

from hf_spanner.core.pipeline_span_ner import SpanNERPipeline

logger = logging.getLogger(__name__)

Misaligned = Literal["expand", "drop"]
SETTINGS = {
    "model": "",
    "spans_key": "sc",
    "set_ents": True,
    "misaligned": "expand",
    "batch_size": 32,
    "device": None,
    "decoding": {},
}


class SpanNERComponent:
    """Sets the entities of documents; the model is loaded when the first document comes.

    Args:
        model: Folder or Hub name of a saved model.
        spans_key: The key of `doc.spans` for all entities.
        set_ents: Set `doc.ents`, too, which replaces what stands there.
        misaligned: What becomes of an entity that cuts a token of spaCy: "expand" or "drop".
        batch_size: Windows run through the model at once.
        device: As in `transformers.pipeline`.
        decoding: Settings of inference by name, such as `threshold`, in place of the model's.

    Attributes:
        counts: How many entities were found, widened to whole tokens, dropped, and left out of `doc.ents`, in this
            process: with `nlp.pipe(docs, n_process=2)` they stay in the workers.

    Raises:
        ValueError: If no model is named, `misaligned` is no choice, or `decoding` holds what is set beside it.
    """

    def __init__(
        self,
        model: str,
        *,
        spans_key: str = "sc",
        set_ents: bool = True,
        misaligned: Misaligned = "expand",
        batch_size: int = 32,
        device: int | str | None = None,
        decoding: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep the settings."""
        if not model:
            raise ValueError("model must be the folder or Hub name of a saved model, got ''")
        if misaligned not in ("expand", "drop"):
            raise ValueError(f"misaligned must be 'expand' or 'drop', got {misaligned!r}")
        if taken := {"model", "tokenizer", "device", "batch_size"} & set(decoding or {}):
            raise ValueError(
                f"decoding must hold settings of inference, got {', '.join(sorted(taken))} of the component"
            )
        self.model, self.spans_key, self.set_ents, self.misaligned = model, spans_key, set_ents, misaligned
        self.batch_size, self.device, self.decoding = batch_size, device, dict(decoding or {})
        self.counts: Counter[str] = Counter()
        self.loaded: SpanNERPipeline | None = None

    @property
    def ner(self) -> SpanNERPipeline:
        """The pipeline of the model, loaded on first use."""
        if self.loaded is None:
            self.loaded = SpanNERPipeline(
                model=AutoModel.from_pretrained(self.model),
                tokenizer=AutoTokenizer.from_pretrained(self.model),
                device=self.device,
                batch_size=self.batch_size,
                **self.decoding,
            )
        return self.loaded

    def __call__(self, doc: Doc) -> Doc:
        """The same document with its entities."""
        return next(self.pipe([doc], batch_size=1))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 256) -> Iterator[Doc]:
        """The same documents with their entities; those of a batch are read together.

        Args:
            stream: Documents, read lazily.
            batch_size: Documents at once, as `nlp.pipe` gives it.
        """
        before = self.counts.copy()
        try:
            for docs in minibatch(stream, batch_size):
                for doc, entities in zip(docs, self.ner([doc.text for doc in docs]), strict=True):
                    self.annotate(doc, entities)
                    yield doc
        finally:
            new = self.counts - before
            if changed := {name: count for name, count in new.items() if "token" in name}:
                logger.warning("%d entities found, of which %s", new["found"], changed)

    def annotate(self, doc: Doc, entities: Sequence[Mapping[str, Any]]) -> None:
        """Set the entities of one document.

        Args:
            doc: The document.
            entities: With `start` and `end` in characters, `entity_group` and `score`, as the pipeline gives them.
        """
        found: dict[tuple[int, int, str], tuple[Span, float]] = {}
        for entity in entities:
            self.counts["found"] += 1
            borders, label = (entity["start"], entity["end"]), entity["entity_group"]
            span = doc.char_span(*borders, label=label)
            if span is None:
                span = doc.char_span(*borders, label=label, alignment_mode="expand")
                if self.misaligned == "drop" or span is None:
                    self.counts["dropped, cuts a token"] += 1
                    continue
                self.counts["widened to whole tokens"] += 1
            known = found.get((span.start, span.end, label))
            if known is not None:
                self.counts["dropped, equal to another after widening to tokens"] += 1
            found[span.start, span.end, label] = (span, max(entity["score"], 0.0 if known is None else known[1]))
        spans = [span for span, _ in found.values()]
        scores = [score for _, score in found.values()]
        attributes = {"scores": np.array(scores, dtype="float32")}  # as spaCy's spancat keeps them
        doc.spans[self.spans_key] = SpanGroup(doc, name=self.spans_key, spans=spans, attrs=attributes)
        if self.set_ents:
            flat = flat_spans(spans, scores)
            self.counts["left out of doc.ents, overlaps a better one"] += len(spans) - len(flat)
            doc.set_ents(flat)

    def to_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> None:
        """Save the model and its tokenizer with the pipeline."""
        Path(path).mkdir(parents=True, exist_ok=True)
        self.ner.model.save_pretrained(path)
        self.ner.tokenizer.save_pretrained(path)

    def from_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> "SpanNERComponent":
        """Take the model that was saved with the pipeline, wherever the one of the configuration lies."""
        self.model, self.loaded = str(path), None
        return self


def flat_spans(spans: Sequence[Span], scores: Sequence[float]) -> list[Span]:
    """Spans of which no two overlap, in order: the best score first, of equal ones the longer."""
    order = sorted(range(len(spans)), key=lambda place: (-scores[place], spans[place].start - spans[place].end))
    taken: set[int] = set()
    kept = []
    for place in order:
        tokens = set(range(spans[place].start, spans[place].end))
        if not tokens & taken:
            taken |= tokens
            kept.append(spans[place])
    return sorted(kept, key=lambda span: span.start)


@Language.factory("span_ner", assigns=["doc.spans", "doc.ents"], default_config=SETTINGS)
def make_span_ner(
    nlp: Language,
    name: str,
    model: str,
    spans_key: str,
    set_ents: bool,
    misaligned: str,
    batch_size: int,
    device: int | str | None,
    decoding: dict[str, Any],
) -> SpanNERComponent:
    """The component with the settings of a configuration, for `nlp.add_pipe("span_ner", config=...)`."""
    return SpanNERComponent(
        model,
        spans_key=spans_key,
        set_ents=set_ents,
        misaligned=misaligned,  # type: ignore[arg-type]
        batch_size=batch_size,
        device=device,
        decoding=decoding,
    )

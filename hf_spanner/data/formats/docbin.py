"""spaCy's DocBin: documents whose entities stand in `doc.ents` or under a key of `doc.spans`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hf_spanner.data.formats.writing import Writing, row_name, row_text
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem, Row
from hf_spanner.data.texts import AnnotatedText, TextEntity, text_rows

ENTS = "ents"
SPANS_KEY = "sc"  # that of spaCy's spancat
SCORES = "scores"
Spans = dict[str, list[tuple[Any, float | None]]]  # for each layer its spans with their scores


def docbin_rows(path: Path, reading: Reading) -> Iterator[Row]:
    """Rows of the sentences of a file's documents, or of whole documents where their sentences are unknown.

    Words are spaCy's tokens but for those that are white space.

    Args:
        path: A `.spacy` file.
        reading: Options, of which `layer` matters here ("ents" or a key of `doc.spans`), and report.

    Raises:
        ValueError: Without a choice, if several layers hold entities and none of them all; for a layer that is not
            there; for a file that is none of spaCy's.
        ModuleNotFoundError: If spaCy is not installed.
    """
    from spacy.tokens import DocBin
    from spacy.vocab import Vocab

    try:
        docs: list[Any] = list(DocBin().from_disk(path).get_docs(Vocab()))
    except Exception as error:  # spaCy's reader raises whatever its parts raise
        raise ValueError(f"{path} is not a DocBin that spaCy can read ({error}); allowed: a .spacy file") from error
    layers = [_layers(doc) for doc in docs]
    layer = _layer(layers, str(path), reading)
    for index, (doc, spans) in enumerate(zip(docs, layers, strict=True)):
        place = f"{path}, document {index} (from 0)"
        if layer == ENTS and len(doc) and not doc.has_annotation("ENT_IOB"):
            reading.report.count("dropped, document without annotation of entities", place)
            reading.report.num_dropped_rows += 1
            continue
        entities = [
            TextEntity(place, f"{layer}[{number}]", [(span.start_char, span.end_char)], span.label_, None, score)
            for number, (span, score) in enumerate(spans.get(layer, ()))
        ]
        parts = [sentence.start_char for sentence in doc.sents] if doc.has_annotation("SENT_START") else None
        is_long = len(parts or ()) > 1
        name, document = (doc.user_data.get(field) for field in ("id", "document"))
        words = [(token.idx, token.idx + len(token)) for token in doc if token.text.strip()]
        for _ in range(len(doc) - len(words)):
            reading.report.count("left out, token of white space", place)
        yield from text_rows(
            AnnotatedText(
                place,
                doc.text,
                entities,
                id=name,
                document=f"{path.name}-{index}" if document is None and is_long else document,
                words=words,
                parts=parts if is_long else None,
            ),
            reading,
        )


def _layers(doc: Any) -> Spans:
    """The layers of a document with their spans."""
    layers: Spans = {ENTS: [(span, None) for span in doc.ents]}
    for key, group in doc.spans.items():
        scores: Any = group.attrs.get(SCORES)
        if scores is None or len(scores) != len(group):
            scores = [None] * len(group)
        layers[key] = [
            (span, None if score is None else float(score)) for span, score in zip(group, scores, strict=True)
        ]
    return layers


def _layer(layers: Sequence[Mapping[str, Any]], source: str, reading: Reading) -> str:
    """The layer asked for, or the one that holds all entities.

    Raises:
        ValueError: If it is not there, or if it is not clear which one is meant.
    """
    keys = sorted({key for own in layers for key in own} - {ENTS})
    asked = reading.options.layer
    if asked is not None:
        if asked not in (ENTS, *keys):
            raise ValueError(f"{source}: layer is {asked!r}, allowed: {[ENTS, *keys]}")
        return str(asked)
    used = [key for key in (ENTS, *keys) if any(own.get(key) for own in layers)]
    whole = [key for key in used if all(_names(own, other) <= _names(own, key) for own in layers for other in used)]
    if used and not whole:
        raise ValueError(f"{source}: layers {used} hold different entities; allowed: layer= one of them")
    layer = whole[-1] if whole else ENTS
    if len(used) > 1:
        reading.report.formats[source] = f"spaCy's DocBin, layer {layer} of {used}, which holds the entities of all"
    return layer


def _names(layers: Mapping[str, Any], key: str) -> set[tuple[int, int, str]]:
    """The entities of one layer of a document, for comparison."""
    return {(span.start, span.end, span.label_) for span, _ in layers.get(key, ())}


def write_docbin(rows: Iterable[Row], path: Path, writing: Writing) -> None:
    """Write a document for each row: all entities in `doc.spans["sc"]`, with scores, and the outermost in `doc.ents`.

    Blanks and line ends of the raw text that are no single blank become tokens of white space, as spaCy has them.

    Raises:
        ValueError: For an empty word, which spaCy has not, unless such rows are dropped.
        ModuleNotFoundError: If spaCy is not installed.
    """
    from spacy.tokens import Doc, DocBin, Span, SpanGroup
    from spacy.util import filter_spans
    from spacy.vocab import Vocab

    bin_, vocab = DocBin(store_user_data=True), Vocab()
    for number, row in enumerate(writing.counted(rows, text=True, scores=True)):
        if not all(word.strip() for word in row["tokens"]):
            writing.refuse(
                row_name(row, number), Problem("empty word", "tokens", row["tokens"], "words with characters")
            )
            writing.report.num_rows -= 1
            writing.report.num_entities -= len(row["entities"])
            continue
        words, spaces, places = _tokens(*row_text(row))
        doc = Doc(vocab, words=words, spaces=spaces, sent_starts=[place == 0 for place in range(len(words))])
        spans = [
            Span(doc, places[item["start"]], places[item["end"] - 1] + 1, label=item["label"])
            for item in row["entities"]
        ]
        scores = [item["score"] for item in row["entities"] if "score" in item]
        has_scores = bool(scores) and len(scores) == len(spans)
        doc.spans[SPANS_KEY] = SpanGroup(doc, spans=spans, attrs={SCORES: scores} if has_scores else {})
        doc.set_ents(filter_spans(spans))
        doc.user_data |= {name: row.get(name) for name in ("id", "document") if row.get(name) is not None}
        bin_.add(doc)
    bin_.to_disk(path)


def _tokens(text: str, offsets: Sequence[tuple[int, int]]) -> tuple[list[str], list[bool], list[int]]:
    """SpaCy's tokens of a text, whether a blank follows each, and the token that each word is."""
    words: list[str] = []
    spaces: list[bool] = []
    places, last = [], 0
    for start, end in [*offsets, (len(text), len(text))]:
        gap = text[last:start]
        if gap.startswith(" ") and words:
            spaces[-1], gap = True, gap[1:]
        if gap:
            words.append(gap)
            spaces.append(False)
        if start < end:
            places.append(len(words))
            words.append(text[start:end])
            spaces.append(False)
        last = end
    return words, spaces, places

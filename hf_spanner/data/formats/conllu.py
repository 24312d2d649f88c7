"""CoNLL-U and CoNLL-U Plus: columns by name, and entities in one of them or in a key of MISC."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hf_spanner.data.lines import text_lines
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem, Row
from hf_spanner.data.tagged import scheme_of_stream, spans_of_tags
from hf_spanner.data.texts import chosen_pieces

COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
PLUS = "# global.columns"
NAMES = ("NER", "NE", "ENTITY")  # of columns, after a prefix such as PARSEME:, and of keys in MISC
COMMENT = re.compile(r"#\s*(newdoc id|newdoc|sent_id)\s*=?\s*(.*)")
NO_WORD = re.compile(r"\d+[-.]\d+")
EMPTY = ("_", "*", "")
NUMBERED = re.compile(r"\d+(?::[^;]+)?(?:;\d+(?::[^;]+)?)*")


class Sentence(NamedTuple):
    """A sentence: its words, the values of its entities, their lines, and what it is called."""

    words: list[str]
    values: list[str]
    lines: list[int]
    id: str | None
    document: str | None


def conllu_rows(path: Path, reading: Reading) -> Iterator[Row]:
    """Rows of a file in CoNLL-U, or CoNLL-U Plus with its `global.columns`.

    Entities are tags of a column or key named NER, NE or entity, or else `layer`; or numbered spans as in PARSEME
    (`1:PER`, then `1`). Lines of several words and of none are counted.

    Args:
        path: The file, plain or `.gz`.
        reading: Options and report.

    Raises:
        ValueError: If no column holds entities; for malformed lines and tags, as the options say.
    """
    sentences = _sentences(path, reading)
    scheme, sentences = scheme_of_stream(
        sentences, lambda sentence: [] if _are_numbered(sentence.values) else _tags(sentence.values), str(path), reading
    )
    for words, values, lines, name, document in sentences:

        def place_of(index: int, lines: list[int] = lines) -> str:
            return f"{path}, line {lines[index]}"

        if _are_numbered(values):
            spans = list(_numbered(values, place_of, reading))
        else:
            spans = spans_of_tags(_tags(values), place_of, scheme, reading)
        if spans is not None:
            entities = reading.unique_entities(spans, f"{path}, line {lines[0]}")
            yield {"id": name, "document": document, "tokens": words, "entities": entities}


def _sentences(path: Path, reading: Reading) -> Iterator[Sentence]:
    """The sentences of a file."""
    columns: Sequence[str] = COLUMNS
    document, sentence, num_documents, has_values = None, Sentence([], [], [], None, None), 0, False
    for number, line in [*text_lines(path), (0, "")]:
        comment = COMMENT.fullmatch(line) if line.startswith("#") and not sentence.words else None
        if line.startswith(PLUS):
            columns = line.partition("=")[2].split()
        elif comment is not None and comment[1] == "sent_id":
            sentence = sentence._replace(id=comment[2])
        elif comment is not None:
            num_documents += 1
            document = comment[2] or f"{path.name}-{num_documents - 1}"
        elif not line.strip():
            if sentence.words:
                yield sentence._replace(document=document)
            sentence = Sentence([], [], [], None, None)
        elif not (line.startswith("#") and ("\t" not in line or "ID" in columns[:1])):
            fields = dict(zip(columns, line.split("\t"), strict=False))
            if len(line.split("\t")) != len(columns) or "FORM" not in columns:
                allowed = f"{len(columns)} columns with tabs between, one of them FORM"
                problem = Problem("number of columns", "line", line, allowed)
                raise ValueError(f"{path}, line {number}: {problem}")
            if NO_WORD.fullmatch(fields.get("ID", "")):
                reading.report.count("skipped, line of several words or of none", f"{path}, line {number}")
                continue
            value = _value(fields, reading)
            has_values = has_values or value is not None
            sentence.words.append(fields["FORM"])
            sentence.values.append(value or "_")
            sentence.lines.append(number)
    if not has_values:
        allowed = f"a column or a key of MISC named {', '.join(NAMES)}, or layer= its name"
        raise ValueError(f"{path}: {Problem('missing column', 'columns', list(columns), allowed)}")


def _value(fields: dict[str, str], reading: Reading) -> str | None:
    """What a line says of entities, None if it says nothing."""
    pairs = [item.partition("=") for item in fields.get("MISC", "").split("|")]
    named = {**fields, **{key: value for key, _, value in pairs if value}}
    asked = reading.options.layer
    if asked is not None:
        return named.get(str(asked))
    return next((value for name, value in named.items() if name.rpartition(":")[2].upper() in NAMES), None)


def _tags(values: Sequence[str]) -> list[str]:
    """Values as tags."""
    return ["O" if value in EMPTY else value for value in values]


def _are_numbered(values: Sequence[str]) -> bool:
    """Whether values are numbered spans and not tags."""
    given = [value for value in values if value not in EMPTY]
    return bool(given) and all(NUMBERED.fullmatch(value) for value in given)


def _numbered(
    values: Sequence[str], place_of: Callable[[int], str], reading: Reading
) -> Iterator[tuple[int, int, str]]:
    """The spans of numbered values; words between those of one number make it discontinuous."""
    words: dict[str, list[int]] = {}
    labels: dict[str, str] = {}
    for index, value in enumerate(values):
        for item in [] if value in EMPTY else value.split(";"):
            number, _, label = item.partition(":")
            words.setdefault(number, []).append(index)
            labels[number] = label or labels.get(number, "entity")
    for number, places in words.items():
        pieces: list[tuple[int, int]] = []
        for index in places:
            if pieces and pieces[-1][1] == index:
                pieces[-1] = (pieces[-1][0], index + 1)
            else:
                pieces.append((index, index + 1))
        place = place_of(places[0])
        for start, end in chosen_pieces(pieces, "span", place, labels[number], reading):
            yield start, end, reading.clean_label(labels[number], place)

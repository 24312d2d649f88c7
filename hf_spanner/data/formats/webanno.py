"""WebAnno TSV 3, as WebAnno and INCEpTION write it: a line for each token, and columns for the features of layers."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hf_spanner.data.formats.layers import chosen_layer, short_name
from hf_spanner.data.lines import text_lines
from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem, Row
from hf_spanner.data.texts import AnnotatedText, TextEntity, text_rows

HEAD = "#FORMAT=WebAnno TSV 3"
TOKEN = re.compile(r"(\d+)-(\d+)(\.\d+)?\t(\d{1,7})-(\d{1,7})\t([^\t]*)\t(.*)")
BAR = re.compile(r"(?<!\\)\|")
NUMBERED = re.compile(r"(.*)(?<!\\)\[(\d+)\]", re.DOTALL)
ESCAPE = re.compile(r"\\(.)")
SPECIAL = {"t": "\t", "n": "\n", "r": "\r"}
LABELS = ("value", "label")  # features that hold the type, the usual one first
NONE, UNSET = "_", "*"
LINE = "sentence-token, start-end of at most 7 digits, token and the columns of the layers, with tabs between"


class Layer(NamedTuple):
    """A span layer: its name, the first of its columns after the token, and its features."""

    name: str
    column: int
    features: Sequence[str]


class TokenLine(NamedTuple):
    """A token, or a piece of one: its line, its offsets in characters, and its columns."""

    number: int
    start: int
    end: int
    cells: Sequence[str]


def webanno_rows(path: Path, reading: Reading) -> Iterator[Row]:
    """Rows of the sentences of a file, which is one document.

    Args:
        path: The file, plain or `.gz`.
        reading: Options, of which `layer` matters here, and report. The label is the feature `value` or `label`, or the
            layer's first; a span without a value is named after its layer and counted.

    Raises:
        ValueError: For malformed lines, a layer that is not clear, and pieces of tokens that the options refuse.
    """
    layers: list[Layer] = []
    width, is_head = 0, True
    text, unit = "", 0  # so far, and its length in units of UTF-16, which the offsets count
    words, parts, tokens = [], [], []
    sentence = ""
    for number, line in text_lines(path):
        if line.startswith("#T_") and is_head:
            kind, _, described = line.partition("=")
            name, *features = described.split("|")
            if kind == "#T_SP":
                layers.append(Layer(name, width, features or [""]))
            width += max(1, len(features))
            continue
        match = TOKEN.fullmatch(line)
        if match is None or (match[3] and not words):
            is_head = is_head and (line.startswith("#") or not line.strip())
            if line.strip() and not line.startswith("#"):
                reading.refuse(f"{path}, line {number}", Problem("line", "line", line, LINE))
            continue
        is_head = False
        first, last, word = int(match[4]), int(match[5]), unescaped(match[6])
        cells = match[7].removesuffix("\t").split("\t")
        if match[3] is None:
            if first < unit or last - first != _units(word):
                problem = Problem("surface", "offsets", (first, last), f"those of {word!r} after {unit}")
                raise ValueError(f"{path}, line {number}: {problem}")
            text += " " * (first - unit)
            if match[1] != sentence:
                sentence = match[1]
                parts.append(len(text))
            words.append((len(text), len(text) + len(word)))
            text, unit, begin = text + word, last, first
        start, end = (words[-1][0] + _characters(text[words[-1][0] :], place - begin) for place in (first, last))
        tokens.append(TokenLine(number, start, end, cells))
    entities, document = _chosen(layers, tokens, path, reading), path.with_suffix("").name
    yield from text_rows(AnnotatedText(str(path), text, entities, None, document, words, parts), reading)


def _chosen(layers: Sequence[Layer], tokens: Sequence[TokenLine], path: Path, reading: Reading) -> list[TextEntity]:
    """The entities of one layer."""
    used = {
        layer.name
        for layer in layers
        if any(_cell(token, layer.column + place) != NONE for token in tokens for place in range(len(layer.features)))
    }
    name = chosen_layer([layer.name for layer in layers], used, str(path), reading)
    layer = next((layer for layer in layers if layer.name == name), None)
    return [] if layer is None else _entities(layer, tokens, path, reading)


def _entities(layer: Layer, tokens: Sequence[TokenLine], path: Path, reading: Reading) -> list[TextEntity]:
    """The entities of a layer; lines whose values have one number in brackets are one."""
    label = next((name for name in LABELS if name in layer.features), layer.features[0])
    column = layer.column + list(layer.features).index(label)
    spans: dict[str, tuple[TokenLine, int, int, str]] = {}
    for token in tokens:
        cell = _cell(token, column)
        for place, value in enumerate([] if cell == NONE else BAR.split(cell)):
            match = NUMBERED.fullmatch(value)
            key = f"[{match[2]}]" if match else f"{token.number}, {place}"
            value = match[1] if match else value
            first, start, end, value = spans.get(key, (token, token.start, token.end, value))
            spans[key] = (first, min(start, token.start), max(end, token.end), value)
    entities = []
    for first, start, end, value in spans.values():
        place = f"{path}, line {first.number}"
        if value == UNSET:
            reading.report.count("changed, span without value named after its layer", place)
        name = short_name(layer.name) if value == UNSET else unescaped(value)
        entities.append(TextEntity(place, layer.name, [(start, end)], name))
    return entities


def _cell(token: TokenLine, column: int) -> str:
    """A column of a token; none if the line is shorter."""
    return token.cells[column] if column < len(token.cells) else NONE


def unescaped(text: str) -> str:
    """A text without the backslashes that the format puts before special characters."""
    return ESCAPE.sub(lambda match: SPECIAL.get(match[1], match[1]), text)


def _units(text: str) -> int:
    """Length of a text in units of UTF-16."""
    return len(text.encode("utf-16-le")) // 2


def _characters(text: str, units: int) -> int:
    """How many characters of a text are so many units of UTF-16."""
    return len(text.encode("utf-16-le")[: 2 * units].decode("utf-16-le", errors="replace"))

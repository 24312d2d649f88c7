"""JSON lines, where each line is one record, and JSON arrays, where each item is."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Any

from hf_spanner.data.policy import Reading
from hf_spanner.data.schema import Problem

LINES = "one JSON object a line, or one array of objects in the whole file"
BLANKS = " \t\n\r"  # of JSON
NO_BLANK = re.compile(rf"[^{BLANKS}]")


def json_records(
    numbered: Iterator[tuple[int, str]], source: str, reading: Reading
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Records of JSON lines, read line by line, or of one array, read at once; blank lines hold none.

    Args:
        numbered: The lines of a file with their numbers, as `text_lines` gives them.
        source: The file, for messages.
        reading: Options and report.

    Yields:
        "source, line n" and the record; of an array, the line in which the record begins, and its place among the
        records that begin there.

    Raises:
        ValueError: If a record is not a JSON object in valid Unicode, or an object in it holds a key twice, unless such
            records are dropped; if an array is broken, since nobody can tell where its next item begins.
    """
    first = next(((number, line) for number, line in numbered if line.strip()), None)
    if first is None:
        return
    items = chain([first], numbered)
    if first[1].lstrip(BLANKS).startswith("["):
        lines = list(items)
        texts = [""] * (first[0] - 1) + [line for _, line in lines]
        items = _items("\n".join(texts), source) if _is_array(texts) else iter(lines)
    last_number, count = 0, 0
    for number, text in items:
        if not text.strip():
            continue
        count = count + 1 if number == last_number else 0
        last_number = number
        place = f"{source}, line {number}" + (f", item {count} of it (from 0)" if count else "")
        try:
            record = DECODER.decode(text)
            if "\\u" in text:  # an escape may hold half of a character, which no UTF-8 file can
                json.dumps(record, ensure_ascii=False).encode("utf-8")
        except (ValueError, RecursionError) as error:
            reading.refuse_row(place, Problem("JSON", "line", text, f"{LINES} ({error})"))
            continue
        if isinstance(record, dict):
            yield place, record
        else:
            reading.refuse_row(place, Problem("JSON", "line", text, LINES))


def _is_array(lines: list[str]) -> bool:
    """Whether the lines of a file are one array: the last ends it, the first does not, unless it is the only one."""
    first, *others = [line for line in lines if line.strip()]
    if not (others or [first])[-1].rstrip(BLANKS).endswith("]"):
        return False
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return True
    return not others


def _items(text: str, source: str) -> Iterator[tuple[int, str]]:
    """The items of a JSON array as texts, each with the number of the line in which it begins.

    Raises:
        ValueError: If the array is broken; the message names file and line.
    """
    start, number, counted = _after_blanks(text, text.index("[") + 1), 1, 0
    separator = "," if text[start] != "]" else "]"
    end = start
    while separator == ",":
        start = _after_blanks(text, start)
        number, counted = number + text.count("\n", counted, start), start
        try:
            _, end = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            line = text.count("\n", 0, error.pos) + 1 if isinstance(error, json.JSONDecodeError) else number
            raise ValueError(f"{source}, line {line}: {Problem('JSON', 'array', text[start:], str(error))}") from error
        yield number, text[start:end]
        end = _after_blanks(text, end)
        separator, start = text[end : end + 1], end + 1
    if separator != "]" or text[end + 1 :].strip(BLANKS):
        line = text.count("\n", 0, end) + 1
        raise ValueError(
            f"{source}, line {line}: {Problem('JSON', 'array', text[end:], 'items with commas, and one end')}"
        )


def _after_blanks(text: str, place: int) -> int:
    """The next place that holds no blank."""
    match = NO_BLANK.search(text, place)
    return len(text) if match is None else match.start()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of some pairs; a repeated key is refused, since JSON would keep its last value alone."""
    values = dict(pairs)
    if len(values) < len(pairs):
        numbers = Counter(key for key, _ in pairs)
        raise ValueError(f"key {next(key for key in numbers if numbers[key] > 1)!r} stands twice in one object")
    return values


DECODER = json.JSONDecoder(object_pairs_hook=_object)

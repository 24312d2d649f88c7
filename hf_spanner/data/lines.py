"""Lines of a text file: strict UTF-8, plain or gzip, ended by a newline with or without carriage return."""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

LINE_ENDS = r"lines that end with \n or \r\n, no \r inside; or with \r alone in the whole file"


def text_lines(path: Path, *, old_line_ends: bool = False) -> Iterator[tuple[int, str]]:
    r"""Numbered lines of a file, read one by one.

    Only "\n" and "\r\n" end a line; other separators of Unicode stay inside it. A byte order mark is left out.

    Args:
        path: A file; `.gz` is unpacked while reading.
        old_line_ends: Let a bare "\r" end the lines of a file without any "\n", as on systems of old.

    Yields:
        Line number, from 1, and the line without its end.

    Raises:
        ValueError: If a line is not UTF-8 or the gzip data is damaged; the message names file and line.
    """
    number = 0
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        try:
            for number, line in enumerate(file, start=1):
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                    if old_line_ends and b"\r" in line and not line.endswith(b"\n"):  # it is the whole file
                        lines = line.removesuffix(b"\r").split(b"\r")
                        yield from ((place, decoded(old, str(path), place)) for place, old in enumerate(lines, start=1))
                        return
                yield number, decoded(line.removesuffix(b"\n").removesuffix(b"\r"), str(path), number)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{path}, after line {number}: damaged gzip data ({error})") from error


def has_bare_return(line: str) -> bool:
    r"""Whether a "\r" stands inside a line; it may be the line end of an old system, which makes one line of many."""
    return "\r" in line and "\r" in line.rstrip()


def decoded(data: bytes, path: str, first_line: int = 1) -> str:
    """Text of UTF-8 bytes.

    Args:
        data: One or more lines of a file.
        path: The file, for the message.
        first_line: Number of the first line.

    Raises:
        ValueError: If the bytes are not UTF-8; nothing is replaced. The message names file, line and byte of the line.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        *lines, before = data[: error.start].split(b"\n")
        place = f"{path}, line {first_line + len(lines)}: byte {len(before) + 1}"
        raise ValueError(f"{place} is {data[error.start : error.start + 1]!r}; allowed: UTF-8 text") from error

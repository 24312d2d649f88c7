"""From rows to files in the formats of the table."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from hf_spanner.data.formats.table import FORMATS, format_of_path
from hf_spanner.data.formats.writing import Writing
from hf_spanner.data.policy import OnError, ReadReport, logger


def save_rows(
    rows: Iterable[Mapping[str, Any]],
    path: str | Path,
    *,
    format: str | None = None,
    on_error: OnError = "error",
    scheme: str = "IOB2",
    report: ReadReport | None = None,
) -> None:
    """Write rows to a file or folder that does not exist yet; it is there as a whole or not at all.

    Args:
        rows: Rows as `load_rows` or `read_rows` gives them, read once; those that have their raw text keep it where the
            format can hold it.
        path: The file, packed if its name ends with `.gz`, or the folder of BRAT pairs.
        format: A name in `FORMATS`; None goes by the suffix.
        on_error: "error" refuses a row that the format cannot hold, such as nested entities in columns; "drop" leaves
            out what does not fit, and counts it.
        scheme: Tag scheme of columns.
        report: Filled with the counts of what was written, dropped and changed; these are logged at the end in any
            case.

    Raises:
        ValueError: For an unknown format, a path that exists, and for what the format cannot hold, as `on_error` says.
        OSError: If the file cannot be written.
    """
    path = Path(path)
    name = format or format_of_path(path)
    write = FORMATS[name].write if name in FORMATS else None
    if write is None:
        allowed = [name for name, format in FORMATS.items() if format.write is not None]
        raise ValueError(f"format of path {path} is {name!r}, allowed for writing: {allowed}, given or by suffix")
    if path.exists():
        raise ValueError(f"path {path} exists; allowed: a new name")
    if path.suffix == ".gz" and name in ("parquet", "spacy"):
        raise ValueError(f"path {path} ends with .gz; allowed for {name}: another name")
    report = ReadReport() if report is None else report
    unfinished = path.with_name(f".unfinished-{path.name}")
    _remove(unfinished)  # what an earlier call left that was killed
    try:
        write(cast(Any, rows), unfinished, Writing(on_error, scheme, report))
        unfinished.replace(path)
    finally:
        _remove(unfinished)
    if report.counts:
        logger.warning("%s: %s", path, report)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

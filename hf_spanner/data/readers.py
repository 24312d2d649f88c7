"""From any source of annotated sentences to rows: `read_rows` streams one file, `load_rows` gives a dataset."""

import functools
import glob
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Unpack

from datasets import Dataset, DatasetDict, IterableDataset, load_dataset, load_from_disk
from datasets.arrow_writer import ArrowWriter

from hf_spanner.data.formats.json_forms import form_rows
from hf_spanner.data.formats.table import FORMATS, SUFFIX_FORMATS, format_of_path
from hf_spanner.data.hub import dataset_records
from hf_spanner.data.policy import ReadChoices, Reading, ReadOptions, ReadReport, logger
from hf_spanner.data.schema import FEATURES, Problem, Row

RowSource = (
    str
    | Path
    | Dataset
    | IterableDataset
    | Sequence[Mapping[str, Any]]
    | Mapping[str, Dataset | IterableDataset | Sequence[Mapping[str, Any]]]
)
SPLIT_NAMES = {"dev": "validation", "valid": "validation", "val": "validation"}
SHARD = re.compile(r"-\d{5}-of-(\d{5})$")
HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


def read_rows(
    path: str | Path,
    *,
    format: str | None = None,
    details: bool = False,
    report: ReadReport | None = None,
    **choices: Unpack[ReadChoices],
) -> Iterator[Row]:
    """Rows of one file or folder, read as they are asked for.

    Args:
        path: The file, plain or `.gz`, or a folder of BRAT pairs.
        format: A name in `FORMATS`; None goes by the suffix, and in JSON by the fields of the records. What was found
            is noted in the report.
        details: Give rows also the raw `text` and the `offsets` of its words, where the source has it, and entities the
            `score` of a prediction.
        report: Filled with the counts of what was dropped and changed; these are logged at the end in any case.
        choices: As in `ReadChoices`.

    Returns:
        Rows in the order of the file, with entities sorted and unique.

    Raises:
        ValueError: For an unknown choice or format, at once; for malformed data, when the row is reached. The message
            names file, line, field, value and what is allowed.
    """
    reading = Reading(ReadOptions(**choices, details=details), ReadReport() if report is None else report)
    return _counted_rows(_file_rows(Path(path), format, reading), str(path), reading)


def load_rows(
    source: RowSource,
    *,
    split: str | None = None,
    subset: str | None = None,
    format: str | None = None,
    report: ReadReport | None = None,
    **choices: Unpack[ReadChoices],
) -> Dataset:
    """Dataset of rows from a file, a folder, a dataset, a list of records or the Hub.

    The rows are written to disk as they are read and mapped from there; nothing is cached, so an edited file is never
    read stale. The files are removed when the process ends.

    Args:
        source: A file; a folder with `train`, `validation` (`dev`) or `test` files, there or in its `data`, BRAT pairs,
            or a saved dataset; a dataset or a list of dicts, with `tokens` and `ner_tags` (`tags`, `labels`) or
            `entities`, or in the form of an annotation tool; several of these by the names of their splits, as a
            `DatasetDict`; or the name of a dataset on the Hub.
        split: Which split of a folder, of a `DatasetDict` or of the Hub; None where there is only one.
        subset: Configuration of a dataset on the Hub.
        format: As in `read_rows`.
        report: Filled with the counts of what was dropped and changed.
        choices: As in `ReadChoices`.

    Returns:
        Rows in order, with the columns of `FEATURES`.

    Raises:
        ValueError: For an unknown source, split or choice, and for malformed data as in `read_rows`.
    """
    reading = Reading(ReadOptions(**choices), ReadReport() if report is None else report)
    if isinstance(source, str | Path):
        return _stored(_counted_rows(_source_rows(source, split, subset, format, reading), str(source), reading))
    if (subset, format) != (None, None):
        raise ValueError(f"subset, format are {(subset, format)}, allowed for what is in memory: None")
    return _stored(_counted_rows(_memory_rows(source, split, reading), "dataset", reading))


def _memory_rows(source: Any, split: str | None, reading: Reading) -> Iterator[Row]:
    """Rows of a dataset or of a list of records, or of one of several by the name of its split."""
    if isinstance(source, Mapping):
        return _memory_rows(source[_split_name([str(name) for name in source], split, "dataset")], None, reading)
    if split is not None:
        raise ValueError(f"split is {split!r}, allowed for one dataset: None")
    if isinstance(source, Dataset | IterableDataset):
        return _dataset_rows(source, "dataset", reading)
    if not isinstance(source, list | tuple):
        allowed = "a path, a dataset, a list of dicts, or several of these by the names of their splits"
        raise ValueError(f"source is {type(source).__name__}, allowed: {allowed}")
    return _rows_unless_none(form_rows(_given_records(source, reading), "rows", reading), "rows", reading)


def _given_records(records: Sequence[Any], reading: Reading) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Records of a list, each with its place."""
    for index, record in enumerate(records):
        place = f"rows, row {index} (from 0)"
        if isinstance(record, Mapping):
            yield place, record
        else:
            reading.refuse_row(place, Problem("type", "row", record, "a dict"))


def _source_rows(
    source: str | Path, split: str | None, subset: str | None, format: str | None, reading: Reading
) -> Iterator[Row]:
    """Rows of a file, a folder or a dataset of the Hub."""
    path = Path(source)
    if path.is_file():
        if (split, subset) != (None, None):
            raise ValueError(f"split, subset are {(split, subset)}, allowed for one file: None")
        return _file_rows(path, format, reading)
    if (path / "dataset_info.json").is_file() or (path / "dataset_dict.json").is_file():
        return _dataset_rows(_one_split(load_from_disk(path), split, str(path)), str(path), reading)
    if path.is_dir():
        if split is None and next(path.glob("*.ann"), None):
            return _file_rows(path, format, reading)
        files = _split_files(path, split, format)
        return chain.from_iterable(_file_rows(file, format, reading) for file in files)
    if isinstance(source, Path) or format_of_path(path) or not HUB_NAME.fullmatch(source):
        raise ValueError(
            f"path {source} does not exist; allowed: a file, a folder, or the name of a dataset on the Hub"
        )
    dataset = _one_split(load_dataset(source, subset), split, source)
    return _dataset_rows(dataset, source, reading)


def _file_rows(path: Path, format: str | None, reading: Reading) -> Iterator[Row]:
    """Rows of one file, or of a folder in a format that is one."""
    if not path.exists():
        raise ValueError(f"path {path} does not exist; allowed: a file or a BRAT folder")
    name = format or format_of_path(path)
    if name == "parquet":
        return _dataset_rows(_parquet(path), str(path), reading)
    read = FORMATS[name].read if name in FORMATS else None
    if read is None:
        allowed = [name for name, format in FORMATS.items() if format.is_read]
        raise ValueError(
            f"format of path {path} is {name!r}, allowed: {allowed}, given or by suffix {[*SUFFIX_FORMATS]}"
        )
    rows = read(path, reading)
    return rows if name == "brat" else _rows_unless_none(rows, str(path), reading)


def _parquet(path: Path) -> IterableDataset:
    """Dataset of one file, streamed, so that no copy stays in the cache of datasets."""
    name = str(path.absolute())
    if "::" in name:  # datasets would then read another file
        raise ValueError(f"path {name} must not hold '::' for parquet")
    return load_dataset("parquet", data_files=glob.escape(name), split="train", streaming=True)


def _dataset_rows(dataset: Dataset | IterableDataset, source: str, reading: Reading) -> Iterator[Row]:
    """Rows of a dataset."""
    return _rows_unless_none(form_rows(dataset_records(dataset, source, reading), source, reading), source, reading)


def _rows_unless_none(rows: Iterator[Row], source: str, reading: Reading) -> Iterator[Row]:
    """The same rows.

    Raises:
        ValueError: If there are none because all were dropped: it is rather the options that do not fit.
    """
    num_dropped, has_rows = reading.report.num_dropped_rows, False
    for row in rows:
        has_rows = True
        yield row
    num_dropped = reading.report.num_dropped_rows - num_dropped
    if num_dropped and not has_rows:
        examples = [example for kept in reading.report.examples.values() for example in kept]
        example = next((example for example in examples if example.startswith(source)), "")
        raise ValueError(f"{source}: nothing could be read, all rows were dropped ({num_dropped:,}); e.g. {example}")


def _counted_rows(rows: Iterator[Row], source: str, reading: Reading) -> Iterator[Row]:
    """The same rows; at the end, what was dropped and changed on the way is logged once."""
    report = reading.report
    num_rows, num_entities = report.num_rows, report.num_entities
    for row in rows:
        report.num_rows += 1
        report.num_entities += len(row["entities"])
        yield row
    if report.num_rows > num_rows and report.num_entities == num_entities:
        logger.warning("%s: none of its %d rows has an entity", source, report.num_rows - num_rows)
    if report.counts:
        logger.warning("%s: %s", source, report)
    elif report.schemes:
        logger.info("%s: %s", source, report)


def _split_files(folder: Path, split: str | None, format: str | None) -> list[Path]:
    """The files of one split of a folder: one, or numbered shards in order."""
    splits: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        kind = format_of_path(path) or (format if path.is_file() else None)
        is_text_of_pair = (format or kind) == "brat" and path.suffix == ".txt" and path.with_suffix(".ann").exists()
        if kind and not is_text_of_pair:
            name = SHARD.sub("", path.name.split(".")[0])
            splits.setdefault(_usual_name(name), []).append(path)
    if not splits and (folder / "data").is_dir():
        return _split_files(folder / "data", split, format)
    files = splits[_split_name(list(splits), split, f"path {folder}")]
    shards = [match for path in files if (match := SHARD.search(path.name.split(".")[0]))]
    if len(files) > 1 and len(shards) < len(files):
        raise ValueError(
            f"path {folder} holds several files of one split, {[path.name for path in files]}; allowed: one"
        )
    given = Counter(match[0] for match in shards)
    wanted = Counter(f"-{number:05d}-of-{match[1]}" for match in shards[-1:] for number in range(int(match[1])))
    if given != wanted:
        wrong = ([*(wanted - given)], [*(given - wanted)])
        raise ValueError(f"path {folder}: {Problem('shards', 'missing, surplus', wrong, 'each shard once')}")
    return files


def _split_name(splits: list[str], split: str | None, source: str) -> str:
    """The split asked for, by its own name or another usual one, or the only one."""
    if split is None and len(splits) == 1:
        return splits[0]
    if split in splits:
        return split
    same = [name for name in splits if split is not None and _usual_name(name) == _usual_name(split)]
    if len(same) == 1:
        return same[0]
    raise ValueError(f"split is {split!r}, allowed for {source}: {splits}")


def _usual_name(split: str) -> str:
    """The name that stands for all usual names of a split."""
    return SPLIT_NAMES.get(split, split)


def _one_split(dataset: Dataset | DatasetDict, split: str | None, source: str) -> Dataset:
    """One split of a loaded dataset."""
    if isinstance(dataset, Dataset):
        if split is not None:
            raise ValueError(f"split is {split!r}, allowed for path {source}: None, it holds one")
        return dataset
    return dataset[_split_name([str(name) for name in dataset], split, source)]


@functools.cache
def _storage() -> tempfile.TemporaryDirectory[str]:
    """Folder of this process for rows on disk, removed when it ends."""
    return tempfile.TemporaryDirectory(prefix="hf_spanner-rows-")


def _stored(rows: Iterator[Row]) -> Dataset:
    """Dataset of rows, through a file of its own."""
    path = Path(tempfile.mkdtemp(dir=_storage().name)) / "rows.arrow"
    with ArrowWriter(path=str(path), features=FEATURES) as writer:
        for row in rows:
            writer.write(dict(row))
        writer.finalize()
    return Dataset.from_file(str(path))

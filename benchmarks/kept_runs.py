"""What runs leave in `benchmarks/predictions`: lines of results, and a Parquet file of predictions for each corpus.

`read_predictions` of the package reads one run of a file by its name, as in `gum.parquet#gum_full-bopn-seed42`.
"""

import gzip
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(__file__).parent / "predictions"
NUM_DIGITS = 5
SCORE = pa.decimal128(NUM_DIGITS + 1, NUM_DIGITS)
SPAN = {"start": pa.int32(), "end": pa.int32(), "label": pa.string()}
SCHEMA = pa.schema(
    {
        "run": pa.string(),
        "name": pa.string(),
        "method": pa.string(),
        "seed": pa.int32(),
        "split": pa.string(),
        "row": pa.int32(),
        "predicted": pa.list_(pa.struct({**SPAN, "score": SCORE})),
        "gold": pa.list_(pa.struct(SPAN)),
    }
)
FACTS = ("name", "method", "seed", "split")
SPAN_COLUMNS = [f"{side}.list.element" for side in ("predicted", "gold")]


def kept_results(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Facts and scores of all runs, in the order in which they were made."""
    file = folder / "results.jsonl.gz"
    if not file.exists():
        return []
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).decode().splitlines()]


def add_result(folder: Path, facts: Mapping[str, Any]) -> None:
    """Add facts and scores of a run, in place of those of one of the same name."""
    lines = [line for line in kept_results(folder) if run_name(line) != run_name(facts)]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in [*lines, facts])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def run_name(facts: Mapping[str, Any]) -> str:
    """Name of a run: its own, its method and seed, and the split unless that is test."""
    suffix = "" if facts["split"] == "test" else f"-{facts['split']}"
    return f"{facts['name']}-{facts['method']}-seed{facts['seed']}{suffix}"


def file_of_run(run: str, folder: Path = FOLDER) -> Path:
    """The file that holds a run; the name of a run begins with its corpus, up to the first underscore or hyphen."""
    return folder / f"{run.replace('-', '_').partition('_')[0]}.parquet"


def kept_runs(patterns: Sequence[str], folder: Path = FOLDER) -> list[str]:
    """Files and runs, as `read_predictions` takes them, of the runs whose name fits a pattern such as `gum_full*`.

    Raises:
        ValueError: If a pattern fits no run.
    """
    sources = {
        run: f"{file}#{run}"
        for file in sorted(folder.glob("*.parquet"))
        for run in pq.read_table(file, columns=["run"])["run"].unique().to_pylist()
    }
    for pattern in patterns:
        if not any(fnmatchcase(run, pattern) for run in sources):
            raise ValueError(f"{pattern} must fit one of the runs {', '.join(sorted(sources))}")
    return [sources[run] for run in sorted(sources) if any(fnmatchcase(run, pattern) for pattern in patterns)]


def add_run(folder: Path, facts: Mapping[str, Any], predicted: Sequence, gold: Sequence) -> str:
    """Add a run to the file of its corpus, in place of one of the same name.

    Args:
        folder: Where the file is, or is made.
        facts: Facts of the run, with `name`, `method`, `seed` and `split`.
        predicted: For each row its entities (start, end, label, score); scores are kept to five digits.
        gold: The same without scores.

    Returns:
        The name of the run.
    """
    run = run_name(facts)
    file = file_of_run(run, folder)
    rows = [
        {"run": run, **{name: facts[name] for name in FACTS}, "row": row, "predicted": row_predicted, "gold": row_gold}
        for row, (row_predicted, row_gold) in enumerate(zip(map(_kept_scores, predicted), gold, strict=True))
    ]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    if file.exists():
        table = pa.concat_tables([pq.read_table(file, schema=SCHEMA, filters=[("run", "!=", run)]), table])
    write_runs(file, table)
    return run


def write_runs(file: Path, table: pa.Table) -> None:
    """Write the runs of a corpus to a small file: by row, whole columns in a page, the bytes of numbers split."""
    file.parent.mkdir(parents=True, exist_ok=True)
    numbers = [f"{column}.{end}" for column in SPAN_COLUMNS for end in ("start", "end")] + [f"{SPAN_COLUMNS[0]}.score"]
    pq.write_table(
        table.sort_by([(name, "ascending") for name in ("split", "row", "run")]),
        file,
        compression="brotli",
        compression_level=11,
        row_group_size=1 << 22,
        data_page_size=1 << 26,
        use_dictionary=["run", *FACTS, *(f"{column}.label" for column in SPAN_COLUMNS)],
        store_decimal_as_integer=True,
        column_encoding=dict.fromkeys(numbers, "BYTE_STREAM_SPLIT") | {"row": "DELTA_BINARY_PACKED"},
    )


def _kept_scores(entities: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**entity, "score": Decimal(f"{entity['score']:.{NUM_DIGITS}f}")} for entity in entities]

"""A data set for the Hub: Parquet files of its splits and a card that says what they hold."""

import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import DatasetCard, DatasetCardData, HfApi

from hf_spanner.data.readers import load_rows
from hf_spanner.data.report import data_report
from hf_spanner.data.writers import save_rows

SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
LARGEST = "n>1M"
BODY = """# {title}

Sentences with named entities. A row has `tokens`, its words, and `entities`, each with `start`, `end` (in words, end
exclusive) and `label`; entities may lie inside others. `document` names the text that a sentence comes from; rows of
one text stand together. `id` is the name of a row.

```
{report}
```

```python
from hf_spanner import load_rows

rows = load_rows("{name}", split="{split}")
```
"""


def save_dataset(
    splits: Mapping[str, Iterable[Mapping[str, Any]]],
    folder: str | Path,
    *,
    name: str,
    license: str | None = None,
    language: str | Sequence[str] = (),
) -> None:
    """Write a folder that can be uploaded as a data set: a Parquet file for each split, and `README.md`, the card.

    Args:
        splits: Rows by the name of their split, such as "train", "validation" and "test".
        folder: A folder that does not exist yet.
        name: Name of the data set on the Hub, owner/name.
        license: As the Hub writes it, such as "cc-by-4.0"; None leaves it open.
        language: Code of the language, such as "en", or several.

    Raises:
        ValueError: If there is no split, a name of one is more than letters, digits and underscores, the folder exists,
            or a row is malformed; nothing is written.
    """
    folder = Path(folder)
    if not splits or not all(re.fullmatch(r"\w+", split) for split in splits):
        raise ValueError(f"splits must be at least one, named by letters, digits and underscores, got {list(splits)}")
    if folder.exists():
        raise ValueError(f"folder {folder} exists; allowed: a new name")
    (folder / "data").mkdir(parents=True)
    try:
        for split, given in splits.items():
            save_rows(given, folder / "data" / f"{split}.parquet")
        rows: dict[str, Any] = {split: load_rows(folder / "data" / f"{split}.parquet") for split in splits}
        number = sum(map(len, rows.values()))
        data = DatasetCardData(
            language=[language] if isinstance(language, str) else list(language) or None,
            license=license,
            task_categories=["token-classification"],
            task_ids=["named-entity-recognition"],
            size_categories=[next((size for limit, size in SIZES if number < limit), LARGEST)],
            tags=["span-ner"],
            configs=[
                {
                    "config_name": "default",
                    "data_files": [{"split": split, "path": f"data/{split}.parquet"} for split in rows],
                }
            ],
        )
        first = next(iter(rows))
        body = BODY.format(title=name.rpartition("/")[2], name=name, split=first, report=data_report(rows))
        DatasetCard(f"---\n{data.to_yaml()}\n---\n\n{body}").save(folder / "README.md")
    except BaseException:
        shutil.rmtree(folder)
        raise


def push_rows(
    splits: Mapping[str, Iterable[Mapping[str, Any]]],
    name: str,
    *,
    private: bool = True,
    license: str | None = None,
    language: str | Sequence[str] = (),
    token: str | None = None,
) -> str:
    """Upload rows to the Hub as a data set with a card, in one commit.

    Args:
        splits: Rows by the name of their split.
        name: Owner and name; the data set is made if it does not exist.
        private: Whether a new data set is private.
        license: As in `save_dataset`.
        language: As in `save_dataset`.
        token: Token of the Hub; that of the login if it is left out.

    Returns:
        The address of the commit.
    """
    with tempfile.TemporaryDirectory() as folder:
        save_dataset(splits, Path(folder) / "dataset", name=name, license=license, language=language)
        api = HfApi(token=token)
        api.create_repo(name, repo_type="dataset", private=private, exist_ok=True)
        return str(api.upload_folder(repo_id=name, repo_type="dataset", folder_path=Path(folder) / "dataset"))

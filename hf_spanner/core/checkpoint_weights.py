"""The weights in a checkpoint's files, compared with those of a model before memory is taken for either."""

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import EntryNotFoundError
from transformers import PreTrainedModel
from transformers.modeling_utils import load_state_dict

DOWNLOAD_ARGUMENTS = ("cache_dir", "local_files_only", "revision", "subfolder", "token")
SHARD = re.compile(r"[\w-][\w.-]*\.safetensors")
NAMED = re.compile(r"([\w-][\w.-]*/)*[\w-][\w.-]*\.safetensors(\.index\.json)?")


def saved_shapes(source: str | Path, arguments: Mapping[str, Any], named: str | None) -> dict[str, torch.Size]:
    """Shapes of a checkpoint's weights by name, from the headers of the safetensors files that the library will read.

    Args:
        source: Folder or Hub name.
        arguments: Those of `from_pretrained`, of which `variant` and how to download are used.
        named: File that the configuration names; None for the usual ones.

    Returns:
        Shapes by name; none where a file is absent, which the library reports.

    Raises:
        ValueError: If the configuration or an index of shards leads to other files than safetensors of the folder.
    """
    if named is not None and not NAMED.fullmatch(named):
        raise ValueError(f"transformers_weights must be a safetensors file of the folder, got {named!r}")
    asked = {name: arguments[name] for name in DOWNLOAD_ARGUMENTS if arguments.get(name) is not None}
    variant = f".{arguments['variant']}" if arguments.get("variant") else ""
    usual = [f"model{variant}.safetensors", f"model.safetensors.index{variant}.json"]
    candidate_paths = (found_file(source, name, asked) for name in (usual if named is None else [named]))
    first = next((path for path in candidate_paths if path is not None), None)
    if first is None:
        return {}
    paths = [found_file(source, shard, asked) for shard in shards_of(first)] if first.suffix == ".json" else [first]
    files = [path for path in paths if path is not None]
    if len(files) < len(paths):
        return {}
    return {name: weight.shape for path in files for name, weight in load_state_dict(path, map_location="meta").items()}


def found_file(source: str | Path, name: str, asked: Mapping[str, Any]) -> Path | None:
    """Where a file of a folder or of a repository on the Hub lies on disk; None if there is none."""
    if Path(source).is_dir():
        path = Path(source, asked.get("subfolder", ""), name)
        return path if path.is_file() else None
    try:
        return Path(hf_hub_download(str(source), name, **asked))
    except EntryNotFoundError:
        return None


def shards_of(index: Path) -> set[str]:
    """Names of the files in an index of shards; a ValueError if one is no safetensors file of the same folder."""
    shards = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
    for shard in shards:
        if not isinstance(shard, str) or not SHARD.fullmatch(shard):
            raise ValueError(f"{index}: a shard must be a safetensors file of the same folder, got {shard!r}")
    return set(shards)


def check_shapes(
    model: PreTrainedModel, source: str | Path, saved: Mapping[str, torch.Size], ignores_sizes: bool
) -> None:
    """Raise a ValueError that names missing or misshapen weights.

    Args:
        model: The model as it will be loaded, on the meta device, where weights take no memory.
        source: Where the checkpoint lies, for the message.
        saved: Shapes of its weights by name.
        ignores_sizes: Whether weights of another shape may be left out and start anew.
    """
    tied = model.all_tied_weights_keys
    expected = {name: weight.shape for name, weight in model.state_dict().items() if name not in tied}
    missing, others = expected.keys() - saved.keys(), saved.keys() - expected.keys()
    # the library renames, splits and joins weights of older layouts, which keeps their number of elements
    if sum(expected[name].numel() for name in missing) > sum(saved[name].numel() for name in others):
        refuse_missing(type(model).__name__, source, missing)
    shapes = [
        f"{name} {list(saved[name])} for {list(expected[name])}"
        for name in expected.keys() & saved.keys()
        if saved[name] != expected[name]
    ]
    if shapes and not ignores_sizes:
        raise ValueError(
            f"{source}: shapes of {len(shapes)} weights mismatch those of its configuration, e.g. "
            f"{', '.join(sorted(shapes)[:5])}; a new label set needs ignore_mismatched_sizes=True"
        )


def refuse_missing(model_class: str, source: str | Path, missing: Collection[str]) -> None:
    """Raise a ValueError that names weights which a checkpoint lacks."""
    if missing:
        raise ValueError(
            f"{source} lacks {len(missing)} weights of {model_class}, e.g. {', '.join(sorted(missing)[:5])}; "
            f"to start from an encoder, use {model_class}.from_encoder"
        )

"""The weights in a checkpoint's files, compared with those of a model before memory is taken for either."""

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import EntryNotFoundError
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_utils import load_state_dict

DOWNLOAD_ARGUMENTS = ("cache_dir", "local_files_only", "revision", "subfolder", "token")
SHARD = re.compile(r"[\w-][\w.-]*\.safetensors")
NAMED = re.compile(r"([\w-][\w.-]*/)*[\w-][\w.-]*\.safetensors(\.index\.json)?")


def saved_weights(source: str | Path, arguments: Mapping[str, Any], named: str | None) -> dict[str, Tensor]:
    """A checkpoint's weights by name without their values, from the headers of the files that the library will read.

    Args:
        source: Folder or Hub name.
        arguments: Those of `from_pretrained`, of which `variant` and how to download are used.
        named: File that the configuration names; None for the usual ones.

    Returns:
        Tensors on the meta device by name; none where a file is absent, which the library reports.

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
    return {name: weight for path in files for name, weight in load_state_dict(path, map_location="meta").items()}


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


def check_weights(model: PreTrainedModel, source: str | Path, saved: Mapping[str, Tensor], ignores_sizes: bool) -> None:
    """Raise a ValueError that names weights which are missing, misshapen or of another kind of number.

    Args:
        model: The model as it will be loaded, on the meta device, where weights take no memory.
        source: Where the checkpoint lies, for the message.
        saved: What `saved_weights` gave.
        ignores_sizes: Whether weights of another shape may be left out and start anew.
    """
    tied = model.all_tied_weights_keys
    expected = {name: weight for name, weight in model.state_dict().items() if name not in tied}
    missing, others = expected.keys() - saved.keys(), saved.keys() - expected.keys()
    # the library renames, splits and joins weights of older layouts, which keeps their number of elements
    if sum(expected[name].numel() for name in missing) > sum(saved[name].numel() for name in others):
        refuse_missing(type(model).__name__, source, missing)
    check_kinds(model, source, saved)
    shapes = [
        (name, saved[name].shape, expected[name].shape)
        for name in expected.keys() & saved.keys()
        if saved[name].shape != expected[name].shape
    ]
    if not ignores_sizes:
        refuse_misshapen(source, shapes, "a new label set needs ignore_mismatched_sizes=True")


def check_kinds(model: PreTrainedModel, source: str | Path, saved: Mapping[str, Tensor]) -> None:
    """Raise a ValueError that names weights saved as whole numbers where the model has fractions, or the reverse.

    The library would load them as something else without a word. A prefix of the base model is left out of account.
    """
    prefix = f"{model.base_model_prefix}."
    expected = model.state_dict()
    names = {name if name in expected else name.removeprefix(prefix): name for name in saved}
    wrong = [
        f"{names[name]} {kind_of(saved[names[name]])} for {kind_of(expected[name])}"
        for name in sorted(names.keys() & expected.keys())
        if saved[names[name]].is_floating_point() != expected[name].is_floating_point()
    ]
    if wrong:
        raise ValueError(
            f"{source}: {len(wrong)} weights are of another kind of number than the model's, e.g. "
            f"{', '.join(wrong[:NUM_NAMED])}"
        )


def kind_of(weight: Tensor) -> str:
    """The type of a tensor's numbers, such as int64."""
    return str(weight.dtype).removeprefix("torch.")


def refuse_misshapen(
    source: str | Path, shapes: Collection[tuple[str, Collection[int], Collection[int]]], remedy: str
) -> None:
    """Raise a ValueError that names weights with their shapes in the files and in the model."""
    if shapes:
        named = [f"{name} {list(found)} for {list(wanted)}" for name, found, wanted in sorted(shapes)]
        raise ValueError(
            f"{source}: shapes of {len(shapes)} weights mismatch those of its configuration, e.g. "
            f"{', '.join(named[:NUM_NAMED])}; {remedy}"
        )


def refuse_missing(model_class: str, source: str | Path | None, missing: Collection[str]) -> None:
    """Raise a ValueError that names weights which a checkpoint lacks."""
    if missing:
        raise ValueError(
            f"{source} lacks {len(missing)} weights of {model_class}, e.g. {', '.join(sorted(missing)[:NUM_NAMED])}; "
            f"to start from an encoder, use {model_class}.from_encoder"
        )


def refuse_unfit(model: PreTrainedModel, source: str | Path, info: Mapping[str, Any]) -> None:
    """Raise a ValueError if the weights of a pretrained encoder do not fit it, as the library found them on loading.

    A pooler may be missing, and weights outside the modules of the encoder, as of another task's head, may be there.

    Args:
        model: The encoder.
        source: Where it lies, for the message.
        info: `missing_keys`, `mismatched_keys` and `unexpected_keys` of the library.
    """
    missing = sorted(name for name in info["missing_keys"] if "pooler" not in name.split("."))
    unexpected = sorted(info["unexpected_keys"])
    if missing:
        there = f"; its files name weights such as {', '.join(unexpected[:NUM_NAMED])}" if unexpected else ""
        raise ValueError(
            f"{source} lacks {len(missing)} weights of {type(model).__name__}, e.g. {', '.join(missing[:NUM_NAMED])}"
            f"{there}; a prefix that a wrapper such as DDP or PEFT has put before the names must be taken off"
        )
    refuse_misshapen(source, info["mismatched_keys"], "configuration and weights must be of the same encoder")
    children = {name for name, _ in model.named_children()}
    prefix = f"{model.base_model_prefix}."
    inner = [name for name in unexpected if name.removeprefix(prefix).split(".")[0] in children]
    if inner:
        raise ValueError(
            f"{source} has {len(inner)} weights inside {type(model).__name__} for which its configuration has no "
            f"place, e.g. {', '.join(inner[:NUM_NAMED])}; without them it would be another encoder"
        )


NUM_NAMED = 5

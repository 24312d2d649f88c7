"""Cases S: files that would run code, absurd values, and paths that lead out of their folder."""

import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from method_facts import facts_of
from saved_models import rewrite_config
from transformers import AutoConfig, AutoModel

from hf_spanner import METHODS, Recipe, SpanNERModel, load_rows

Case = dict[str, Any]
# Fields of the case that some methods have under another name; `method` is a value of recipes.
NOT_OURS = ("max_span_length", "method", "num_proposals")


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Path]]:
        return Path.touch, (self.marker,)


@pytest.fixture
def saved(tiny_model: Callable[..., SpanNERModel], method: str, tmp_path: Path) -> Path:
    """A folder with a saved model."""
    tiny_model(method).save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


@pytest.mark.parametrize("case", ["S-01"], indirect=True)
def test_pickled_weights_are_refused(case: Case, saved: Path, tmp_path: Path) -> None:
    """This is item 0."""
    marker = tmp_path / "marker.txt"
    (saved / "model.safetensors").unlink()
    torch.save({"weight": Bomb(marker)}, saved / "pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        AutoModel.from_pretrained(saved)
    assert not marker.exists()


@pytest.mark.parametrize("case", ["S-01"], indirect=True)
def test_a_recipe_runs_no_tags(case: Case, tmp_path: Path) -> None:
    """Item 1 is a tag, and item 9 is a method that is a path."""
    path = tmp_path / "recipe.yaml"
    path.write_text(case["input"]["items"][1]["yaml"], encoding="utf-8")
    with pytest.raises(ValueError, match="is not plain YAML"):
        Recipe.from_yaml(path)
    path.write_text(
        f"encoder: a\ndata: {{}}\nmethod: {case['input']['items'][9]['config']['method']}\n", encoding="utf-8"
    )
    with pytest.raises(ValueError, match="method must be one of"):
        Recipe.from_yaml(path)


@pytest.mark.parametrize("case", ["S-01"], indirect=True)
def test_code_of_another_repository_is_not_fetched_without_trust(
    case: Case, saved: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is item 2."""
    fetched = []
    for name in ("get_class_from_dynamic_module", "get_cached_module_file"):
        monkeypatch.setattr(f"transformers.dynamic_module_utils.{name}", lambda *args, **_: fetched.append(args))
    elsewhere = case["input"]["items"][2]["config"]["auto_map"]
    rewrite_config(saved, auto_map=elsewhere | {"AutoConfig": elsewhere["AutoModel"]})
    assert type(AutoModel.from_pretrained(saved)) is METHODS[method]
    rewrite_config(saved, model_type="evil")
    with pytest.raises(ValueError, match="trust_remote_code"):
        AutoConfig.from_pretrained(saved, trust_remote_code=False)
    assert fetched == []


@pytest.mark.parametrize("case", ["S-01"], indirect=True)
def test_absurd_values_are_refused_before_weights_are_read(case: Case, method: str, tmp_path: Path) -> None:
    """Items 3 to 8 and 10 are run in a folder without weights, so an error about the field can only come first."""
    for item in case["input"]["items"][3:]:
        ((name, value), *others) = item["config"].items()
        name = facts_of(method).names_in_cases.get(name, name)
        if name in NOT_OURS:
            continue
        config = {"model_type": method, name: value, **dict(others)}
        (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
        with pytest.raises(ValueError, match=name):
            AutoModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("case", ["S-01"], indirect=True)
@pytest.mark.parametrize("item", [3, 9, 10])
def test_fields_that_the_project_has_not(item: int, case: Case) -> None:
    ((name, _),) = case["input"]["items"][item]["config"].items()
    assert name in NOT_OURS
    assert not any(name in METHODS[method].config_class.field_rules for method in METHODS)
    assert name == "method" or any(name in facts_of(method).names_in_cases for method in METHODS)


def archive(item: Case, folder: Path) -> Path:
    """An archive that holds the members of the case."""
    path = folder / f"corpus.{item['type']}"
    if item["type"] == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for member in item["members"]:
                file.writestr(member, "0" * min(item.get("unpacked_bytes", 10), 10**7))
        return path
    with tarfile.open(path, "w") as file:
        for member in item["members"]:
            info = tarfile.TarInfo(member["symlink"] if isinstance(member, dict) else member)
            if isinstance(member, dict):
                info.type, info.linkname = tarfile.SYMTYPE, member["to"]
            else:
                info.size = 10
            file.addfile(info, io.BytesIO(b"Ana B-PER\n"))
    return path


@pytest.mark.parametrize("case", ["S-02"], indirect=True)
@pytest.mark.parametrize("item", range(5))
def test_archives_are_no_data_and_nothing_of_them_is_written(item: int, case: Case, tmp_path: Path) -> None:
    """Readers unpack nothing but single `.gz` files, line by line and never to disk."""
    folder = tmp_path / "target"
    folder.mkdir()
    path = archive(case["input"]["items"][item], folder)
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(path.read_bytes())
    for source in (path, packed):
        with pytest.raises(ValueError, match="allowed: .*conll") as error:
            load_rows(source)
        assert [text for text in case["expected"]["mentions"] if text not in str(error.value)] == []
    assert sorted(tmp_path.rglob("*")) == [folder, path, packed]


@pytest.mark.parametrize("case", ["S-02"], indirect=True)
@pytest.mark.parametrize("suffix", [".ann", ".txt"])
def test_a_link_of_a_brat_folder_that_leads_outside(suffix: str, case: Case, tmp_path: Path) -> None:
    """Item 5 is refused even where malformed data may be dropped."""
    folder, outside = tmp_path / "corpus", tmp_path / f"secret{suffix}"
    folder.mkdir()
    (folder / "a.txt").write_text("Ana", encoding="utf-8")
    (folder / "a.ann").write_text("T1\tPER 0 3\tAna\n", encoding="utf-8")
    (folder / f"a{suffix}").rename(outside)
    (folder / f"a{suffix}").symlink_to(outside)
    for source in (folder, folder / "a.ann"):
        with pytest.raises(ValueError, match="leads to") as error:
            load_rows(source, on_error="drop")
        assert case["expected"]["mentions"][0] in str(error.value)


@pytest.mark.parametrize("case", ["S-02"], indirect=True)
def test_a_recipe_and_a_split_name_no_file_outside(case: Case, tmp_path: Path) -> None:
    """Item 6 is run as it is, and with the same given as the name of a split."""
    (tmp_path / "corpus").mkdir()
    for path in (tmp_path / "secret.conll", tmp_path / "corpus" / "train.conll"):
        path.write_text("Ana B-PER\n", encoding="utf-8")
    recipe = tmp_path / "corpus" / "recipe.yaml"
    recipe.write_text("method: bopn\nencoder: a\ndata: {train: ../../secret.txt}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"data.train must be a path without '\.\.'") as error:
        Recipe.from_yaml(recipe)
    assert case["expected"]["mentions"][0] in str(error.value)
    for split in ("../secret", "../secret.conll", "/train", "train/..", ""):
        with pytest.raises(ValueError, match="split is") as error:
            load_rows(tmp_path / "corpus", split=split)
        assert case["expected"]["mentions"][0] in str(error.value)

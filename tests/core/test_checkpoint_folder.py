"""What a saved folder holds after a save, and what of it goes to the Hub, with which arguments."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import ModelCard
from transformers.utils import hub

from hf_spanner import SpanNERModel
from hf_spanner.core import checkpoint_folder
from hf_spanner.core.checkpoint_folder import move_finished

SOURCE = {"configuration_boundary_smoothing.py", "modeling_boundary_smoothing.py", "pipeline_span_ner.py", "spans.py"}
ASKED = {
    "repo_id": "me/tagger",
    "commit_message": "First",
    "commit_description": "Trained on ours.",
    "private": True,
    "revision": "try",
    "tags": ["news"],
}


class FakeHub:
    """Takes the calls of an upload as the Hub would, and notes them by name."""

    def __init__(self) -> None:
        self.calls: dict[str, dict[str, Any]] = {}

    def create_repo(self, repo_id: str, **arguments: Any) -> SimpleNamespace:
        """Answer with a repository in the user's name."""
        self.calls["create_repo"] = {"repo_id": repo_id, **arguments}
        return SimpleNamespace(repo_id=f"me/{repo_id.split('/')[-1]}")

    def create_branch(self, repo_id: str, **arguments: Any) -> None:
        """Note a branch."""
        self.calls["create_branch"] = {"repo_id": repo_id, **arguments}

    def create_commit(self, repo_id: str, operations: list[Any], **arguments: Any) -> None:
        """Note what a commit adds, and the card in it."""
        assert "create_commit" not in self.calls
        files = {operation.path_in_repo: operation.path_or_fileobj for operation in operations}
        card = files["README.md"]
        text = card.decode() if isinstance(card, bytes) else Path(card).read_text(encoding="utf-8")
        self.calls["create_commit"] = {
            "repo_id": repo_id,
            "files": set(files),
            "tags": ModelCard(text).data.tags,
            **arguments,
        }


@pytest.fixture
def fake_hub(monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    """Stands in the place of the Hub for this package and for the library."""
    fake = FakeHub()
    monkeypatch.setattr(checkpoint_folder, "HfApi", lambda token: fake)
    monkeypatch.setattr(hub, "_hf_api", fake)
    return fake


@pytest.fixture
def model(tiny_model: Callable[..., SpanNERModel]) -> SpanNERModel:
    return tiny_model(lstm_layers=0)


def saved(owner: Any, folder: Path, asked: dict[str, Any]) -> None:
    owner.save_pretrained(folder, push_to_hub=True, **asked)


def pushed(owner: Any, folder: Path, asked: dict[str, Any]) -> None:
    owner.push_to_hub(**asked)


@pytest.mark.parametrize("upload", [saved, pushed])
@pytest.mark.parametrize("part", ["model", "config"])
def test_every_argument_of_the_library_reaches_the_upload(
    upload: Callable[..., None], part: str, model: SpanNERModel, fake_hub: FakeHub, tmp_path: Path
) -> None:
    """`save_pretrained` and `push_to_hub`, of a model and of a configuration, make the same calls."""
    upload({"model": model, "config": model.config}[part], tmp_path / "folder", ASKED)
    repository, branch, commit = (fake_hub.calls[name] for name in ("create_repo", "create_branch", "create_commit"))
    assert (repository["repo_id"], repository["private"]) == ("me/tagger", True)
    assert (branch["repo_id"], branch["branch"]) == ("me/tagger", "try")
    assert {name: commit[name] for name in ("commit_message", "commit_description", "revision", "tags")} == {
        name: ASKED[name] for name in ("commit_message", "commit_description", "revision", "tags")
    }
    assert commit["create_pr"] is False
    assert commit["files"] >= SOURCE | {"config.json", "README.md"}
    assert ("model.safetensors" in commit["files"]) == (part == "model")


@pytest.mark.parametrize("upload", [saved, pushed])
@pytest.mark.parametrize("part", ["model", "config"])
def test_a_pull_request_is_opened_where_it_is_asked_for(
    upload: Callable[..., None], part: str, model: SpanNERModel, fake_hub: FakeHub, tmp_path: Path
) -> None:
    owner = {"model": model, "config": model.config}[part]
    upload(owner, tmp_path / "folder", {"repo_id": "me/tagger", "create_pr": True, "revision": "refs/pr/3"})
    commit = fake_hub.calls["create_commit"]
    assert (commit["create_pr"], commit["revision"]) == (True, "refs/pr/3")
    assert "create_branch" not in fake_hub.calls


def test_saving_uploads_all_that_was_written_and_nothing_else(
    model: SpanNERModel, fake_hub: FakeHub, tmp_path: Path
) -> None:
    """What else lies in the folder may be private; a card of its own stays as it is."""
    private = [tmp_path / "tagger" / name for name in (".env", "checkpoint-3/optimizer.pt", "checkpoint-3/config.json")]
    for path in [*private, tmp_path / "tagger" / "README.md"]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("secret", encoding="utf-8")
    model.save_pretrained(tmp_path / "tagger", push_to_hub=True)
    commit = fake_hub.calls["create_commit"]
    assert (commit["repo_id"], commit["commit_message"]) == ("me/tagger", "Upload model")
    written = {path.name for path in (tmp_path / "tagger").rglob("*") if path.is_file() and path not in private}
    assert commit["files"] == written
    assert (tmp_path / "tagger" / "README.md").read_text(encoding="utf-8") == "secret"


def test_finished_files_replace_earlier_ones_and_older_weights_go(tmp_path: Path) -> None:
    """Shards of an earlier save go with their index; files of other kinds and of variants stay."""
    source, folder = tmp_path / "new", tmp_path / "model"
    earlier = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"]
    for parent, names in (
        (source, ["model.safetensors", "a.py"]),
        (folder, [*earlier, "a.py", "model.fp16.safetensors"]),
    ):
        parent.mkdir()
        for name in names:
            (parent / name).write_text(parent.name, encoding="utf-8")
    (source / "model.safetensors").chmod(0o600)
    assert move_finished(source, folder) == {"model.safetensors", "a.py"}
    assert {path.name for path in folder.iterdir()} == {"model.safetensors", "a.py", "model.fp16.safetensors"}
    assert (folder / "a.py").read_text(encoding="utf-8") == "new"
    assert (folder / "model.safetensors").stat().st_mode == (folder / "a.py").stat().st_mode

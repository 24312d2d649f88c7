"""What becomes of the files of a saved model: moved into their folder at once, and uploaded."""

import re
from collections.abc import Collection
from pathlib import Path

from huggingface_hub import CommitOperationAdd, HfApi
from transformers.utils.hub import create_and_tag_model_card

WEIGHTS = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors(\.index\.json)?")
UNFINISHED = ".unfinished"
UPLOAD_ARGUMENTS = (
    "repo_id",
    "commit_message",
    "commit_description",
    "private",
    "token",
    "revision",
    "create_pr",
    "tags",
)


def move_finished(source: Path, folder: Path) -> set[str]:
    """Move all files of a folder into another one, over those of the same names, and remove older weights there.

    Returns:
        The names of the files.
    """
    names = {path.name for path in source.iterdir()}
    mode = max(path.stat().st_mode for path in source.iterdir())
    for name in sorted(names):
        (source / name).chmod(mode)  # weights are written for their owner's eyes only
        (source / name).replace(folder / name)
    if any(map(WEIGHTS.fullmatch, names)):
        for path in folder.iterdir():
            if WEIGHTS.fullmatch(path.name) and path.name not in names:
                path.unlink()
    return names


def upload_files(
    folder: Path,
    names: Collection[str],
    *,
    commit_message: str,
    repo_id: str | None = None,
    commit_description: str | None = None,
    private: bool | None = None,
    token: bool | str | None = None,
    revision: str | None = None,
    create_pr: bool = False,
    tags: list[str] | None = None,
) -> None:
    """Upload files of a folder as one commit, with the model card of the repository; what else lies there stays.

    The arguments are those of `push_to_hub`, whose own files are all that its folder holds.

    Args:
        folder: Where the files lie.
        names: Their names.
        commit_message: Title of the commit.
        repo_id: Repository, made if absent; None is the name of the folder.
        commit_description: Text of the commit.
        private: Whether a new repository is private; None is the owner's default.
        token: Access token; None is the stored one.
        revision: Branch, made if absent unless `create_pr` asks for the change to be put before its owners.
        create_pr: Open a pull request in place of a commit.
        tags: What the model card is tagged with.
    """
    api = HfApi(token=token)
    repo_id = api.create_repo(repo_id or folder.resolve().name, private=private, exist_ok=True).repo_id
    if revision is not None and not create_pr and not revision.startswith("refs/pr"):
        api.create_branch(repo_id, branch=revision, exist_ok=True)
    card = create_and_tag_model_card(repo_id, tags, token=token)  # type: ignore[arg-type]  # the library passes more
    operations = [CommitOperationAdd(name, folder / name) for name in sorted({*names} - {"README.md"})]
    operations.append(CommitOperationAdd("README.md", str(card).encode()))
    api.create_commit(
        repo_id,
        operations,
        commit_message=commit_message,
        commit_description=commit_description,
        revision=revision,
        create_pr=create_pr,
    )

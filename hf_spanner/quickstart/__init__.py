"""The quickstart, which `hf-spanner train` runs when no recipe is named, and the frame of a recipe for own files.

The corpus, its generator and its known truth are described in the repository's `recipes/quickstart_data/README.md`.
"""

from pathlib import Path

from huggingface_hub.constants import HF_HOME

RECIPE = Path(__file__).with_name("quickstart.yaml")
STARTER = Path(__file__).with_name("starter.yaml")
MODEL_FOLDER = Path(HF_HOME) / "hf_spanner" / "quickstart"  # where the recipe saves, and pipeline("span-ner") looks


class DefaultModel(dict[str, tuple[str, str]]):
    """The entry of the task `span-ner` for a pipeline that names no model; whoever reads it learns what makes one."""

    def __init__(self) -> None:
        super().__init__(model=(str(MODEL_FOLDER), "main"))

    def __getitem__(self, name: str) -> tuple[str, str]:
        """Folder and revision of the quickstart's model.

        Raises:
            ValueError: If it has not been made.
        """
        if not (MODEL_FOLDER / "config.json").is_file():
            raise ValueError(
                f"the quickstart's model, the default of span-ner, is not in {MODEL_FOLDER}; `hf-spanner train` makes "
                "it in a few minutes, or name another one: pipeline('span-ner', model=...)"
            )
        return super().__getitem__(name)

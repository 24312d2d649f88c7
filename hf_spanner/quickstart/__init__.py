"""The quickstart, which `hf-spanner train` runs when no recipe is named, and the frame of a recipe for own files.

The corpus, its generator and its known truth are described in the repository's `recipes/quickstart_data/README.md`.
"""

from pathlib import Path

from huggingface_hub.constants import HF_HOME

RECIPE = Path(__file__).with_name("quickstart.yaml")
STARTER = Path(__file__).with_name("starter.yaml")
MODEL_FOLDER = Path(HF_HOME) / "hf_spanner" / "quickstart"  # where the recipe saves, and pipeline("span-ner") looks

"""Changes to saved models, for tests of how they are loaded then."""

import json
from pathlib import Path
from typing import Any


def rewrite_config(folder: Path, **values: Any) -> None:
    """Change the configuration of a saved model.

    Args:
        folder: Of the model.
        values: Of the fields to change; None takes a field out, a dict for `encoder_config` changes what it names.
    """
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["encoder_config"] |= values.pop("encoder_config", {})
    config |= values
    kept = {name: value for name, value in config.items() if value is not None or name not in values}
    path.write_text(json.dumps(kept), encoding="utf-8")

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import pipeline

TEXTS = [
    "Ana met Bo in Oslo.",
    "",
    "The University of New York \u00e9 \u4e2d\u6587 " * 40,
    "Mira Stone's bank, 1.5 km!",
]
PROGRAM = """
import json
import sys

for name in ("torch", "transformers", "hf_spanner", "huggingface_hub"):
    sys.modules[name] = None  # any import of them fails
from ort_span_ner import SpanNER

ner = SpanNER(sys.argv[1])
texts = json.loads(sys.argv[2])
words = [text.split() for text in texts]
for wrong in ({"texts": "a"}, {"texts": ["a"], "pretokenized": True}, {"texts": ["a"], "documents": []},
              {"texts": ["a"], "threshold": {}}):
    try:
        ner(**wrong)
        sys.exit(f"{wrong} was taken")
    except (TypeError, ValueError):
        pass
print(json.dumps([ner(texts), ner(texts, overlap="any", threshold=0.4), ner(words, pretokenized=True)]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
def test_the_runner_gives_the_answers_of_the_pipeline_without_torch(
    kind: str, exported: Callable[..., Any], tmp_path: Path
) -> None:
    """With windows, a calibration and any characters; scores within 1e-5. Nothing is kept of its use."""
    calibration = {
        "kind": "platt",
        "all": {"slope": 0.8, "intercept": 0.1},
        "per_label": {},
        "fitted_on": {"name": "dev", "num_rows": 3, "fingerprint": "ab"},
    }
    fields = {"window_size": 24, "window_overlap": 8, "overlap": "nested"}
    made = exported("boundary_smoothing", kind, tuple(fields.items()))
    path = made.folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"calibration": calibration}))
    kept = {
        name: value for name, value in os.environ.items() if name not in ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")
    }
    completed = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(made.folder), json.dumps(TEXTS)],
        cwd=made.folder,
        env={**kept, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    assert list(tmp_path.iterdir()) == []
    plain, settled, words = json.loads(completed.stdout)
    ner = pipeline("span-ner", model=str(made.folder))
    expected = (
        ner(TEXTS),
        ner(TEXTS, overlap="any", threshold=0.4),
        ner([text.split() for text in TEXTS], pretokenized=True),
    )
    assert sum(map(len, plain)) > 10
    for found, wanted in zip((plain, settled, words), expected, strict=True):
        scores = [[entity.pop("score") for entity in answer] for answer in found]
        assert scores == [pytest.approx([entity.pop("score") for entity in answer], abs=1e-5) for answer in wanted]
        assert found == wanted

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModel

from hf_spanner import SpanNERPipeline
from hf_spanner.core.exported_model import GRAPH_FACTS
from hf_spanner.export import exporting
from hf_spanner.export.exporting import export_model

ROWS = [{"tokens": ["Ana", "met", "Bo", "in", "Oslo"], "entities": [{"start": 0, "end": 1, "label": "PER"}]}] * 60
CALIBRATION = {
    "kind": "platt",
    "all": {"slope": 0.8, "intercept": 0.1},
    "per_label": {},
    "fitted_on": {"name": "dev", "num_rows": 3, "fingerprint": "ab"},
    "promises": {"delta": 0.05, "decoding": {"overlap": "flat"}, "precision": [], "recall": []},
}


@pytest.fixture
def saved_tagger(random_tagger: Callable[..., SpanNERPipeline], tmp_path: Path) -> Path:
    """The folder of a random model with a calibration that believes in many spans."""
    ner = random_tagger("boundary_smoothing", calibration=CALIBRATION)
    ner.save_pretrained(str(tmp_path / "weights"))
    (tmp_path / "weights" / "README.md").write_text("---\ntags:\n- span-ner\n---\n\n# tagger\n")
    return tmp_path / "weights"


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_the_folder_is_complete_and_its_files_are_named_as_elsewhere(precision: str, exported: Callable) -> None:
    folder = exported("boundary_smoothing", precision=precision).folder
    name = {"fp32": "model.onnx", "int8": "model_quantized.onnx"}[precision]
    wanted = {
        name,
        GRAPH_FACTS,
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "README.md",
        "ort_span_ner.py",
    }
    assert wanted <= {path.name for path in folder.iterdir()}
    assert not list(folder.glob("*.safetensors"))
    assert json.loads((folder / GRAPH_FACTS).read_text())["files"] == [name]


@pytest.mark.slow
def test_with_rows_both_are_compared_and_the_calibration_is_fitted_again(saved_tagger: Path, tmp_path: Path) -> None:
    comparison = export_model(saved_tagger, tmp_path / "out", check=ROWS, check_name="held-out")
    assert comparison is not None
    assert comparison.equal == 1.0
    assert comparison.loss == 0.0
    calibration = AutoModel.from_pretrained(tmp_path / "out").config.calibration
    assert calibration["fitted_on"] == {**calibration["fitted_on"], "name": "held-out", "num_rows": 60}
    assert "promises" not in calibration
    card = (tmp_path / "out" / "README.md").read_text()
    assert card.startswith("---\ntags:\n- span-ner\n- onnx\n---\n\n# tagger\n")
    for words in ("held-out", "Equal entities in 100.00% of 60 rows.", "fitted again", "Promised thresholds"):
        assert words in card


@pytest.mark.slow
def test_more_loss_than_allowed_writes_nothing(
    saved_tagger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = iter([[row["entities"] for row in ROWS], [[] for _ in ROWS]])
    scored = [[{**entity, "score": 0.5} for entity in entities] for entities in next(sides)]
    answers = iter([scored, next(sides)])
    monkeypatch.setattr(exporting, "predicted_entities", lambda *_: iter(next(answers)))
    with pytest.raises(ValueError, match=r"loses 100\.00 points of F1 on the rows, which is more than max_loss = 0\.5"):
        export_model(saved_tagger, tmp_path / "out", check=ROWS)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"to": "torchscript"}, "to must be one of onnx, openvino, got 'torchscript'"),
        ({"precision": "int4"}, "precision must be one of fp32, int8, got 'int4'"),
        ({"to": "openvino", "precision": "int8"}, "check must be rows for int8 with OpenVINO"),
        ({"output": "weights"}, "output must be a folder without weights"),
        ({"decoding": {"depth": 1}}, "unknown decoding parameter depth"),
    ],
)
def test_what_cannot_be_exported_is_refused_before_work_is_done(
    arguments: dict[str, Any], message: str, saved_tagger: Path, tmp_path: Path
) -> None:
    output = tmp_path / arguments.pop("output", "out")
    with pytest.raises(ValueError, match=message):
        export_model(saved_tagger, output, **arguments)
    assert not (tmp_path / "out").exists()

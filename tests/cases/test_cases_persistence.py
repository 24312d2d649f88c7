"""Cases P: save, move, load offline; damaged checkpoints; versions that move under a model; for every method."""

import json
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from bare_process import BareProcess
from safetensors.torch import load_file, save_file
from saved_models import rewrite_config
from transformers import AutoConfig, AutoModel, PreTrainedConfig, pipeline

from hf_spanner import METHODS, SpanNERPipeline
from hf_spanner.core import configuration_span_ner
from hf_spanner.core.configuration_span_ner import VERSION

Case = dict[str, Any]
TEXTS = ["Ana met Bo Li in Oslo .", "", "The University of New York opened .", " ".join(["Mira met Bo"] * 30)]


@pytest.fixture
def tagger(random_tagger: Callable[..., SpanNERPipeline], method: str) -> SpanNERPipeline:
    """A pipeline on an untrained model that finds entities."""
    return random_tagger(method)


@pytest.fixture
def saved(tagger: SpanNERPipeline, tmp_path: Path) -> Path:
    """A folder with a saved model and its tokenizer."""
    tagger.model.save_pretrained(tmp_path / "saved")
    tagger.tokenizer.save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    """Change the tensors of a saved model."""
    path = folder / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


@pytest.mark.parametrize("case", ["P-01"], indirect=True)
def test_a_moved_folder_predicts_the_same_without_its_encoder(
    case: Case,
    random_tagger: Callable[..., SpanNERPipeline],
    encoder_folders: dict[str, Path],
    method: str,
    kind: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """The standard call needs no trust once the package is imported (P-03); no test uses the network.

    Weights in the file's own memory may round otherwise; a copy lies in memory as the model did, so its scores are
    bit-equal.
    """
    labels = case["input"]["labels"]
    settings = {name: case["input"]["extra_settings"][name] for name in ("threshold", "temperature")}
    made = random_tagger(method, kind, labels=tuple(labels), window_size=30, overlap="nested", **settings)
    answers = made(TEXTS, threshold=0.0)
    assert sum(map(bool, answers)) > 1
    made.model.save_pretrained(tmp_path / "first")
    made.tokenizer.save_pretrained(tmp_path / "first")
    folder = tmp_path / "ein Ordner f\u00fcr Modelle" / "m\u00f6del 1.0"
    shutil.move(tmp_path / "first", folder)
    assert set(case["expected"]["files"]) <= {path.name for path in folder.iterdir()}
    assert not any(str(tmp_path.parent) in path.read_text(encoding="utf-8") for path in folder.glob("*.json"))
    encoder, hidden = encoder_folders[kind], tmp_path / "encoder"
    encoder.rename(hidden)
    request.addfinalizer(lambda: hidden.rename(encoder))
    loaded = pipeline("span-ner", model=str(folder))
    assert type(loaded) is SpanNERPipeline
    config = loaded.model.config
    assert list(config.id2label.items()) == list(enumerate(labels))
    assert all(type(index) is int for index in config.id2label)
    assert {name: getattr(config, name) for name in settings} == settings
    loaded.model = deepcopy(loaded.model)
    assert loaded(TEXTS, threshold=0.0) == answers


@pytest.mark.parametrize("case", ["P-01"], indirect=True)
def test_thresholds_by_label_are_kept(case: Case, tagger: SpanNERPipeline, saved: Path) -> None:
    """The project names labels, which are strings in JSON too; the case's numbers are refused as names."""
    by_label = dict(zip(tagger.model.config.label2id, (0.25, 0.5, 1), strict=True))
    AutoConfig.from_pretrained(saved, threshold=by_label).save_pretrained(saved)
    assert AutoConfig.from_pretrained(saved).threshold == by_label
    with pytest.raises(ValueError, match="threshold must be a number or name each of"):
        AutoConfig.from_pretrained(saved, threshold=case["input"]["extra_settings"]["per_label_threshold"])


@pytest.mark.parametrize("case", ["P-02"], indirect=True)
def test_missing_extra_and_misshapen_tensors(case: Case, method: str, saved: Path, messages: list[str]) -> None:
    """Items 0, 1 and 2 are run on the saved model in turn."""
    name = next(name for name in load_file(saved / "model.safetensors") if not name.startswith("word_encoder."))
    rewrite(saved, lambda tensors: tensors.update({"stranger.weight": torch.zeros(2)}))
    AutoModel.from_pretrained(saved)
    assert "stranger.weight" in "\n".join(messages)
    messages.clear()
    value = load_file(saved / "model.safetensors")[name]
    rewrite(saved, lambda tensors: tensors.update({name: torch.zeros(value.numel() + 3)}))
    with pytest.raises(Exception, match="mismatch") as error:  # noqa: PT011
        AutoModel.from_pretrained(saved)
    told = str(error.value) + "\n".join(messages)
    assert [text for text in (name, str(list(value.shape)), f"[{value.numel() + 3}]") if text not in told] == []
    rewrite(saved, lambda tensors: tensors.pop(name))
    with pytest.raises(ValueError, match=rf"lacks 1 weights of {METHODS[method].__name__}, e.g. {name};"):
        AutoModel.from_pretrained(saved)


@pytest.mark.parametrize("case", ["P-02"], indirect=True)
def test_a_head_for_other_labels(case: Case, saved: Path, messages: list[str]) -> None:
    """Item 2 is run as the case has it: the weights of three types and a configuration of two."""
    rewrite_config(saved, id2label={"0": "A", "1": "B"}, label2id={"A": 0, "B": 1})
    with pytest.raises(ValueError, match=r"shapes of \d+ weights mismatch .*ignore_mismatched_sizes=True"):
        AutoModel.from_pretrained(saved)
    loaded = AutoModel.from_pretrained(saved, ignore_mismatched_sizes=True)
    assert loaded.config.num_labels == 2
    assert all(parameter.isfinite().all() for parameter in loaded.parameters())


@pytest.mark.parametrize("case", ["P-02"], indirect=True)
def test_parameters_that_share_storage(
    case: Case, tagger: SpanNERPipeline, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Item 3: declared as tied, they are saved once and still shared when loaded; undeclared, an error names both."""
    shared, origin = (f"word_encoder.encoder.encoder.layer.{place}.output.dense.weight" for place in (1, 0))
    parent, _, leaf = shared.rpartition(".")
    monkeypatch.setattr(METHODS[method], "_tied_weights_keys", {shared: origin})
    monkeypatch.setattr(tagger.model.config, "tie_word_embeddings", True, raising=False)
    model = METHODS[method](tagger.model.config)
    assert model.get_parameter(shared) is model.get_parameter(origin)
    model.save_pretrained(tmp_path / "declared")
    loaded = AutoModel.from_pretrained(tmp_path / "declared")
    assert loaded.get_parameter(shared) is loaded.get_parameter(origin)
    assert torch.equal(loaded.get_parameter(shared), model.get_parameter(shared))
    monkeypatch.undo()
    setattr(tagger.model.get_submodule(parent), leaf, tagger.model.get_parameter(origin))
    with pytest.raises(RuntimeError, match="shared tensors") as error:
        tagger.model.save_pretrained(tmp_path / "undeclared")
    assert shared in str(error.value)
    assert origin in str(error.value)


@pytest.mark.parametrize("case", ["P-02"], indirect=True)
def test_an_encoder_and_a_cut_file(case: Case, method: str, saved: Path, tiny_encoder: Path) -> None:
    """Items 4 and 5: an encoder with its own configuration, one that claims a span model, and a file of 100 bytes."""
    with pytest.raises(ValueError, match="from_encoder"):
        METHODS[method].from_pretrained(tiny_encoder)
    path = saved / "model.safetensors"
    path.write_bytes((tiny_encoder / "model.safetensors").read_bytes())
    with pytest.raises(ValueError, match="from_encoder"):
        AutoModel.from_pretrained(saved)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(Exception) as error:  # noqa: PT011
        AutoModel.from_pretrained(saved)
    assert "model.safetensors" in str(error.value) + "".join(error.value.__notes__)


@pytest.mark.parametrize("case", ["P-03"], indirect=True)
def test_a_configuration_of_another_version(case: Case, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Items 0, 1 and 2: each field in turn is missing, a key is of a later version, and the major version is later."""
    whole = AutoConfig.from_pretrained(saved)
    default = type(whole)(id2label=whole.id2label, encoder_config=whole.encoder_config)
    text = (saved / "config.json").read_text(encoding="utf-8")
    for name in whole.field_rules:
        rewrite_config(saved, **{name: None})
        assert vars(AutoConfig.from_pretrained(saved))[name] == vars(default)[name]
        (saved / "config.json").write_text(text, encoding="utf-8")
    warnings: list[str] = []
    monkeypatch.setattr(configuration_span_ner.logger, "warning_once", warnings.append)
    rewrite_config(saved, key_of_later=3)
    AutoModel.from_pretrained(saved)
    assert all("key_of_later" in warning for warning in warnings)
    assert len(set(warnings)) == 1
    newer = f"{int(VERSION.split('.')[0]) + 1}.0.0"
    rewrite_config(saved, spanner_version=newer)
    with pytest.raises(ValueError, match="hf_spanner") as error:
        AutoModel.from_pretrained(saved)
    assert newer in str(error.value)
    assert VERSION in str(error.value)


@pytest.mark.parametrize("case", ["P-03"], indirect=True)
def test_every_attribute_of_the_base_configuration_can_be_read(case: Case, method: str) -> None:
    config = METHODS[method].config_class()
    for name in PreTrainedConfig().to_dict():
        getattr(config, name)
    with pytest.raises(AttributeError):
        config.no_such_attribute  # noqa: B018


WITHOUT_SCIPY = """
import importlib.util
import json
import sys

import torch
from transformers import pipeline
from transformers.utils import is_scipy_available

for name in [name for name in sys.modules if name.split(".")[0] == "scipy"] + ["scipy"]:
    sys.modules[name] = None  # any import of it fails
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *given: None if name.split(".")[0] == "scipy" else find_spec(name, *given)
is_scipy_available.cache_clear()
assert not is_scipy_available()

folder = sys.argv[1]
try:
    pipeline("span-ner", model=folder, trust_remote_code=False)
    raise SystemExit("loaded without trust")
except ValueError as error:
    assert "trust_remote_code" in str(error), error
assert not [name for name in sys.modules if name.startswith("transformers_modules")], "code of the folder was run"
tagger = pipeline("span-ner", model=folder, trust_remote_code=True)
text = tagger.preprocess("Ana met Bo")["text"]
arrays = tagger.reader.batch([(text, text.windows[0])])
batch = {name: torch.from_numpy(array) for name, array in arrays.items()}
try:
    tagger.model(**batch, labels=torch.tensor([[[0, 1, 0]]]))
except ImportError as error:
    print("ANSWER" + json.dumps([tagger("Ana met Bo"), str(error)]))
"""


@pytest.mark.parametrize("case", ["P-03"], indirect=True)
def test_without_trust_and_without_an_optional_dependency(
    case: Case, random_tagger: Callable[..., SpanNERPipeline], bare_process: BareProcess, tmp_path: Path
) -> None:
    """Items 3 and 4 run in a process without this package.

    DiffusionNER is the method that has an optional dependency.
    """
    tagger = random_tagger("diffusion_ner")
    tagger.save_pretrained(tmp_path / "model")
    printed = bare_process.run(WITHOUT_SCIPY, tmp_path / "model", cwd=tmp_path)
    entities, error = json.loads(printed.rpartition("ANSWER")[2])
    assert (
        [{**entity, "score": 0} for entity in entities]
        == [{**entity, "score": 0} for entity in tagger("Ana met Bo")]
        != []
    )
    assert "matched_gold requires the scipy library" in error

"""Encoders with code of their own: trained, saved with their code, and loaded where neither is known."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import transformers.dynamic_module_utils
from bare_process import BareProcess
from method_facts import facts_of
from safetensors.torch import save_file
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertModel,
    PreTrainedTokenizerBase,
    pipeline,
    set_seed,
)
from transformers.dynamic_module_utils import get_class_from_dynamic_module

from hf_spanner import METHODS, SpanNERPipeline
from hf_spanner.core import own_encoders

TEXTS = ["Ana met Bo Li in Oslo .", "The University of New York opened ."]
CONFIGURATION = """
from transformers import PreTrainedConfig


class TinyConfig(PreTrainedConfig):
    model_type = "tiny_own"
    hidden_size: int = 32
    num_hidden_layers: int = 1
    vocab_size: int = 200
    max_position_embeddings: int = 64
"""
MODEL = """
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from .configuration_tiny import TinyConfig
from .parts_tiny import Mixing


class TinyModel(PreTrainedModel):
    config_class = TinyConfig

    def __init__(self, config):
        super().__init__(config)
        self.table = nn.Embedding(config.vocab_size, config.hidden_size)
        self.mixing = Mixing(config.hidden_size)
        self.post_init()

    def get_input_embeddings(self):
        return self.table

    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None, output_hidden_states=False):
        vectors = self.table(input_ids) if inputs_embeds is None else inputs_embeds
        states = self.mixing(vectors)
        return BaseModelOutput(states, (vectors, states) if output_hidden_states else None)
"""
PARTS = """
from torch import nn


class Mixing(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(size, size)

    def forward(self, vectors):
        return vectors + self.layer(vectors).tanh().cumsum(dim=1)
"""
AUTO_MAP = {"AutoConfig": "configuration_tiny.TinyConfig", "AutoModel": "modeling_tiny.TinyModel"}
CODE = {"configuration_tiny.py": CONFIGURATION, "modeling_tiny.py": MODEL, "parts_tiny.py": PARTS}
BARE_PROGRAM = """
import json
import sys

from transformers import pipeline

folder, texts = sys.argv[1], json.loads(sys.argv[2])
ner = pipeline("span-ner", model=folder, trust_remote_code=True, device="cpu")
ner.save_pretrained(folder + "-again")
again = pipeline("span-ner", model=folder + "-again", trust_remote_code=True, device="cpu")
print("ANSWERS" + json.dumps([ner(texts), again(texts)]))
"""


@pytest.fixture(autouse=True)
def unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Each test begins and ends without the classes and without copies of their files; so it may go on in its midst."""
    before = set(sys.modules)

    def forget() -> None:
        own_encoders.OWN_CONFIGS.clear()
        for name in [name for name in sys.modules if name.startswith("transformers_modules") and name not in before]:
            del sys.modules[name]

    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(own_encoders, "OWN_CONFIGS", {})
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield forget
    forget()


@pytest.fixture
def encoder(tmp_path: Path, tokenizer: PreTrainedTokenizerBase, unknown: Callable[[], None]) -> Path:
    """The folder of a random encoder with its code, as its authors would publish it."""
    folder = tmp_path / "encoder"
    folder.mkdir()
    for name, text in CODE.items():
        (folder / name).write_text(text, encoding="utf-8")
    values = {"model_type": "tiny_own", "auto_map": AUTO_MAP}
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    config_class, model_class = (get_class_from_dynamic_module(name, str(folder)) for name in AUTO_MAP.values())
    save_file(model_class(config_class()).state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save_pretrained(folder)
    unknown()
    return folder


def saved(method: str, encoder: Path, folder: Path, **fields: Any) -> SpanNERPipeline:
    """A model on the encoder that finds entities, saved with its tokenizer."""
    set_seed(4)
    settings = {"lstm_size": 16, "lstm_layers": 0, **facts_of(method).tiny, **facts_of(method).talkative, **fields}
    model = METHODS[method].from_encoder(encoder, ["A", "B"], trust_remote_code=True, **settings).eval()
    model.get_parameter(facts_of(method).none_bias).data[-1] = -10.0
    ner = SpanNERPipeline(model=model, tokenizer=AutoTokenizer.from_pretrained(encoder, trust_remote_code=True))
    ner.save_pretrained(folder)
    return ner


FIRST, *OTHERS = METHODS


@pytest.mark.parametrize("method", [FIRST, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_a_saved_model_holds_the_code_of_its_encoder(
    method: str, encoder: Path, tmp_path: Path, unknown: Callable[[], None], bare_process: BareProcess
) -> None:
    """It loads in this process, in another one that has the package, where it is trusted, and where there is none."""
    folder = tmp_path / "model"
    answers = saved(method, encoder, folder)(TEXTS)
    assert any(answers)
    assert pipeline("span-ner", model=folder, device="cpu")(TEXTS) == answers
    shutil.rmtree(encoder)
    unknown()
    words = "no class is known for the model type 'tiny_own'; .* trust_remote_code=True, and .*--trust-remote-code"
    for load in (AutoModel.from_pretrained, METHODS[method].from_pretrained):
        with pytest.raises(ValueError, match=words):
            load(folder)
    model = METHODS[method].from_pretrained(folder, trust_remote_code=True)
    assert pipeline("span-ner", model=folder, device="cpu")(TEXTS) == answers
    model.save_pretrained(tmp_path / "again")
    model.config.save_pretrained(folder)
    for path in (tmp_path / "again").iterdir():
        assert path.read_bytes() == (folder / path.name).read_bytes(), path.name
    assert CODE.keys() <= {path.name for path in folder.iterdir()}
    printed = bare_process.run(BARE_PROGRAM, folder, json.dumps(TEXTS), cwd=tmp_path)
    assert json.loads(printed.rpartition("ANSWERS")[2]) == [answers, answers]


def test_commands_run_such_code_where_it_is_trusted(
    encoder: Path, tmp_path: Path, unknown: Callable[[], None], rows: list[dict[str, Any]]
) -> None:
    saved("boundary_smoothing", encoder, tmp_path / "model")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    calls = {
        "evaluate": [str(tmp_path / "model"), str(tmp_path / "rows.jsonl"), "--num-resamples", "0"],
        "predict": [str(tmp_path / "model"), str(tmp_path / "rows.jsonl"), "--output", str(tmp_path / "out.jsonl")],
    }
    for name, arguments in calls.items():
        main = import_module(f"hf_spanner.commands.{name}").main
        unknown()
        with pytest.raises(ValueError, match="with --trust-remote-code"):
            main(arguments)
        main([*arguments, "--trust-remote-code"])


def test_training_goes_on_from_such_a_model(encoder: Path, tmp_path: Path, unknown: Callable[[], None]) -> None:
    """`init_from` with its options reads the configuration first, by its own class."""
    saved("bopn", encoder, tmp_path / "model")
    unknown()
    config = METHODS["bopn"].config_class.from_pretrained(tmp_path / "model", trust_remote_code=True)
    assert config.encoder_config.model_type == "tiny_own"
    unknown()
    config = METHODS["bopn"].config_class.from_pretrained(tmp_path / "model", trust_remote_code=True).to_dict()
    assert METHODS["bopn"].config_class.from_dict(config).to_dict() == config


def test_code_that_no_saved_model_can_hold_is_refused_before_training(encoder: Path) -> None:
    for name in ("modeling_tiny.py", "parts_tiny.py"):
        (encoder / name).write_text(CODE[name].replace("parts_tiny", "words"), encoding="utf-8")
    (encoder / "words.py").write_text(PARTS, encoding="utf-8")
    with pytest.raises(ValueError, match=r"the encoder's code has a file words\.py, and so has every saved model"):
        METHODS["boundary_smoothing"].from_encoder(encoder, ["A"], trust_remote_code=True)


def test_a_model_of_its_own_on_the_librarys_configuration_is_refused(tiny_encoder: Path, tmp_path: Path) -> None:
    """Without trust the library's class is taken, and no reference to other code is kept."""
    folder = shutil.copytree(tiny_encoder, tmp_path / "encoder")
    values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    values["auto_map"] = {"AutoModel": "modeling_tiny.TinyModel"}
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(ValueError, match="trust_remote_code must be left out .* the library has .* 'bert'"):
        METHODS["boundary_smoothing"].from_encoder(folder, ["A"], trust_remote_code=True)
    model = METHODS["boundary_smoothing"].from_encoder(folder, ["A"])
    assert type(model.word_encoder.encoder) is BertModel
    assert "auto_map" not in model.config.to_dict()["encoder_config"]
    model.save_pretrained(tmp_path / "model")
    assert type(model).from_pretrained(tmp_path / "model", trust_remote_code=True).config.num_labels == 1

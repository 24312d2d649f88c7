"""Every encoder family of transformers that reads text and can be built tiny, with every method.

It trains a step, is saved, loads where the package is missing, and answers there as here.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from bare_process import BareProcess
from encoder_families import FAMILIES, NO_VECTORS, REFUSED, tiny_config
from method_facts import facts_of
from transformers import AutoModel, PreTrainedTokenizerBase

from hf_spanner import METHODS, SpanNERCollator, SpanNERPipeline
from hf_spanner.core.text_encoder import new_encoder

TEXTS = ["Ana met Bo Li in Oslo .", "Oslo", "", " ".join(["Mira met Bo"] * 20)]
BARE = """
import json
import sys
from pathlib import Path
from transformers import pipeline

for folder in json.loads(sys.argv[1]):
    answers = pipeline("span-ner", model=folder, trust_remote_code=True, device="cpu")(json.loads(sys.argv[2]))
    Path(folder, "answers.json").write_text(json.dumps(answers))
"""


def trained(family: str, method: str, source: Path, tokenizer: PreTrainedTokenizerBase, rows: list) -> Any:
    """A model on a saved encoder of the family, after one step with finite gradients."""
    fields: dict[str, Any] = {"lstm_size": 16, **facts_of(method).tiny, **facts_of(method).talkative}
    if family in NO_VECTORS and method == "bopn":
        fields["has_type_inputs"] = False
    torch.manual_seed(0)
    model = METHODS[method].from_encoder(source, ["LOC", "ORG", "PER"], **fields)
    assert model.config.encoder_config is model.word_encoder.encoder.config
    batch = SpanNERCollator(tokenizer, model.config.label2id)(rows)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss = model.train()(**batch).loss
    loss.backward()
    assert all(weight.grad.isfinite().all() for weight in model.parameters() if weight.grad is not None)
    assert any(weight.grad is not None for weight in model.word_encoder.encoder.parameters())
    optimizer.step()
    model.get_parameter(facts_of(method).none_bias).data[-1] = -10.0
    return model.eval()


def without_scores(answers: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    return [[entity | {"score": 0.0} for entity in answer] for answer in answers]


@pytest.fixture
def check(
    tokenizer: PreTrainedTokenizerBase, rows: list[dict[str, Any]], tmp_path: Path, bare_process: BareProcess
) -> Callable[[str], None]:
    """Takes a family through all methods."""

    def run(family: str) -> None:
        torch.manual_seed(0)
        source, folders, expected = tmp_path / "encoder", [], []
        new_whole(family).save_pretrained(source)
        for method in METHODS:
            model = trained(family, method, source, tokenizer, rows)
            folder = tmp_path / method
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            folders.append(folder)
            expected.append(SpanNERPipeline(model=model, tokenizer=tokenizer)(TEXTS))
        bare_process.run(BARE, json.dumps(list(map(str, folders))), json.dumps(TEXTS), cwd=tmp_path)
        for folder, answers in zip(folders, expected, strict=True):
            found = json.loads((folder / "answers.json").read_text(encoding="utf-8"))
            assert without_scores(found) == without_scores(answers), folder.name
            scores = [[entity["score"] for answer in answers for entity in answer] for answers in (found, answers)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-5)

    return run


def new_whole(family: str) -> Any:
    """A random model as it lies on the Hub: of an encoder-decoder both halves."""
    config = tiny_config(family)
    return AutoModel.from_config(config) if type(config).is_encoder_decoder else new_encoder(config)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_trains_saves_loads_bare_and_predicts(family: str, check: Callable[[str], None]) -> None:
    check(family)


@pytest.mark.parametrize(  # each with one method; the slow test above pairs every family with every method
    ("family", "method"), zip(["bart", "gpt2", "modernbert", "t5"], sorted(METHODS), strict=True)
)
def test_a_handful_of_families_trains_and_predicts(
    family: str, method: str, tokenizer: PreTrainedTokenizerBase, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    new_whole(family).save_pretrained(tmp_path)
    model = trained(family, method, tmp_path, tokenizer, rows)
    answers = SpanNERPipeline(model=model, tokenizer=tokenizer)(TEXTS)
    assert sum(map(len, answers)) > 0
    assert answers[2] == []


@pytest.mark.parametrize("family", sorted(NO_VECTORS))
def test_prompts_are_refused_in_words_where_an_encoder_reads_no_vectors(family: str, tmp_path: Path) -> None:
    new_whole(family).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"has_type_inputs.* must be False with \w+, which (takes|reads) no"):
        METHODS["bopn"].from_encoder(tmp_path, ["A"])


@pytest.mark.parametrize("family", sorted(REFUSED))
def test_a_family_that_wants_more_than_tokens_is_refused_in_words(family: str, tmp_path: Path) -> None:
    AutoModel.from_config(tiny_config(family)).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=REFUSED[family]):
        METHODS["boundary_smoothing"].from_encoder(tmp_path, ["A"])

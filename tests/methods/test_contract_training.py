"""What every method promises of training and of life outside the package, run over METHODS; no method is named."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_training import trained, without_dropout
from torch import Tensor, nn
from transformers import AutoModel, PreTrainedTokenizerBase

from hf_spanner import SpanNERCollator, SpanNERModel
from hf_spanner.core.spans import named_span
from hf_spanner.metrics.span_ner.scoring import score_spans

Rows = list[dict[str, Any]]
Make = Callable[..., SpanNERModel]


def row(words: str, *entities: tuple[int, int, str]) -> dict[str, Any]:
    found = [{"start": start, "end": end, "label": label} for start, end, label in entities]
    return {"tokens": words.split(), "entities": found}


NESTED = [
    row("The University of New York opened .", (0, 5, "ORG"), (3, 5, "LOC"), (1, 5, "ORG")),
    row("Mira Stone works for the Bank of Oslo", (0, 2, "PER"), (5, 8, "ORG"), (7, 8, "LOC")),
    row("Bo Li 's sister visited Lake Tarn", (0, 2, "PER"), (0, 4, "PER"), (5, 7, "LOC"), (6, 7, "LOC")),
]


def largest_difference(first: SpanNERModel, second: SpanNERModel) -> float:
    left, right = first.state_dict(), second.state_dict()
    assert left.keys() == right.keys()
    return max((left[name] - right[name]).abs().max().item() for name in left)


BARE_PROCESS = """
import sys
sys.modules["hf_spanner"] = None  # as if not installed
import torch
from transformers import AutoModel
source, target = sys.argv[1:]
model = AutoModel.from_pretrained(source, trust_remote_code=True).eval()
batch = torch.load(target + "/batch.pt")
with torch.no_grad():
    output = model(**batch)
torch.save(model.candidate_spans(output, model.decoding()), target + "/packed.pt")
model.save_pretrained(target + "/again")
"""


def test_a_bare_process_loads_predicts_and_saves_again(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows, tmp_path: Path
) -> None:
    """Where the package cannot be imported: the same spans and scores, and the same folder when saved from there."""
    folder, target = tmp_path / "model", tmp_path / "bare"
    model.save_pretrained(folder)
    target.mkdir()
    batch = collator(rows)
    torch.save(batch, target / "batch.pt")
    environment = {"HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-I", "-c", BARE_PROCESS, folder, target], env=environment, check=True)
    loaded = AutoModel.from_pretrained(folder)
    packed = loaded.candidate_spans(loaded(**batch), loaded.decoding())
    assert torch.equal(torch.load(target / "packed.pt"), packed)
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {path.name: path.read_bytes() for path in (target / "again").iterdir()} == written
    assert f"modeling_{model.config.model_type}.py" in written
    assert not any(b"hf_spanner." in text for name, text in written.items() if name.endswith(".py"))


@pytest.mark.parametrize("overlap", ["flat", "nested"])
def test_overfits_three_sentences(tiny_model: Make, method: str, collator: SpanNERCollator, overlap: str) -> None:
    """Strict F1 1.0 on three sentences of nested (for `flat`: outermost) entities, within 1,000 steps."""
    rows = NESTED
    if overlap == "flat":
        gold = [[e for e in one["entities"] if not _is_inside_another(e, one["entities"])] for one in NESTED]
        rows = [{**one, "entities": outer} for one, outer in zip(NESTED, gold, strict=True)]
    model = without_dropout(tiny_model(method, overlap=overlap, encoder_dropout=0.0)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    batch = collator(rows)
    for step in range(1000):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if step % 10 == 9 and _f1(model, batch, rows) == 1.0:
            return
    pytest.fail(f"F1 {_f1(model, batch, rows)} after 1,000 steps")


def _is_inside_another(entity: dict[str, Any], entities: list[dict[str, Any]]) -> bool:
    outer = [e for e in entities if e["start"] <= entity["start"] and entity["end"] <= e["end"] and e != entity]
    return bool(outer)


def _f1(model: SpanNERModel, batch: dict[str, Tensor], rows: Rows) -> float:
    with torch.no_grad():
        decoded = model.eval().decode(model(**batch))
    model.train()
    predicted = [[named_span(span, model.config.id2label) for span in spans] for spans in decoded]
    return score_spans(predicted, [one["entities"] for one in rows])["overall_f1"]


def test_activation_checkpointing_equals_the_plain_run(
    tiny_model: Make, method: str, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    runs = [
        trained(tiny_model(method), tokenizer, rows, tmp_path, max_steps=2, activation_checkpointing=switch)
        for switch in (False, True)
    ]
    assert runs[1].model.is_activation_checkpointing
    assert largest_difference(runs[0].model, runs[1].model) < 1e-6

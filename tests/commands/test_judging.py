"""The predictions of rows that the programs judge."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerBase

from hf_spanner import SpanNERModel, SpanNERPipeline
from hf_spanner.commands.judging import judged_model, predicted_and_gold

Rows = list[dict[str, Any]]


def test_they_are_those_of_the_pipeline_beside_the_gold(
    tiny_model: Callable[..., SpanNERModel],
    tokenizer: PreTrainedTokenizerBase,
    rows: Rows,
) -> None:
    """The calibration acts alike in both."""
    calibration = {
        "kind": "platt",
        "all": {"slope": 0.5, "intercept": -1.0},
        "per_label": {"PER": {"slope": 2.0, "intercept": 0.5}},
        "fitted_on": {"name": "dev", "num_rows": 1, "fingerprint": "ab"},
    }
    model = tiny_model(calibration=calibration)
    model.biaffine.linear_weight.data.mul_(40)
    ner = SpanNERPipeline(model=model, tokenizer=tokenizer)
    predicted, gold = predicted_and_gold(ner, rows, {}, 2)
    assert gold == [row["entities"] for row in rows]
    answers = ner([row["tokens"] for row in rows], pretokenized=True)
    expected = [
        [
            (entity["word_start"], entity["word_end"], entity["entity_group"], pytest.approx(entity["score"], abs=1e-5))
            for entity in entities
        ]
        for entities in answers
    ]
    assert [[tuple(entity.values()) for entity in entities] for entities in predicted] == expected
    assert {entity["label"] for entities in predicted for entity in entities} > {"PER"}
    model.config.calibration = None
    assert predicted_and_gold(ner, rows, {}, 2)[0] != predicted


@pytest.mark.parametrize("name", ["evaluate", "compare", "analyze", "calibrate", "select", "export"])
def test_an_encoder_in_place_of_a_model_is_refused_in_words(
    program: Callable, name: str, tiny_encoder: Path, tmp_path: Path
) -> None:
    options = {"compare": [str(tiny_encoder)], "select": ["--number", "1"], "export": ["--check"]}.get(name, [])
    output = [] if name in ("evaluate", "compare") else ["--output", str(tmp_path / "out")]
    with pytest.raises(ValueError, match="must be a model of one of bopn, .*, got bert"):
        program(name).main([str(tiny_encoder), *options, "rows.jsonl", *output])


def test_rows_are_read_with_the_choices_of_the_reader(saved_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.tags"
    path.write_text("#id 1\nLOC Oslo\nO rained\n", encoding="utf-8")
    choices = {"format": "conll", "scheme": "IO", "comments": "skip", "token_column": 1, "tag_column": 0}
    _, rows = judged_model(str(saved_model), str(path), choices)
    assert list(rows["tokens"]) == [["Oslo", "rained"]]
    assert list(rows["entities"]) == [[{"start": 0, "end": 1, "label": "LOC"}]]


def test_commands_split_words_as_the_model_does(
    program: Callable, saved_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the entity would cut a word; decisions are applied without a model."""
    monkeypatch.chdir(tmp_path)
    AutoModel.from_pretrained(saved_model, split_hyphens=True).save_pretrained("m")
    AutoTokenizer.from_pretrained(saved_model).save_pretrained("m")
    Path("a.pubtator").write_text("1|t|Ana-Bo met.\n1|a|\n1\t0\t3\tAna\tPER\n\n", encoding="utf-8")
    for line in (
        "predict m a.pubtator --output p.jsonl",
        "select m a.pubtator --number 1 --labelled a.pubtator --output s",
        "review m a.pubtator --error-rate 0.5 --output r",
        "review --apply r/suspects.jsonl a.pubtator --output c.jsonl",
    ):
        name, *arguments = line.split()
        program(name).main(arguments)
    for path in ("p.jsonl", "s/selected.jsonl", "r/suspects.jsonl", "c.jsonl"):
        assert '"tokens": ["Ana", "-", "Bo", "met", "."]' in Path(path).read_text(encoding="utf-8")

"""The evaluation program on a tiny saved model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModel, AutoTokenizer

from hf_spanner import SpanNERPipeline, SpanNERTrainer, SpanNERTrainingArguments
from hf_spanner.commands.judging import judged_model, predicted_and_gold
from hf_spanner.metrics.span_ner.resampling import bootstrap_intervals
from hf_spanner.metrics.span_ner.scoring import score_spans


def trainer_scores(folder: Path, rows: list[dict[str, Any]], output_dir: Path, **config: Any) -> dict[str, Any]:
    """The scores that the evaluation of training gives."""
    args = SpanNERTrainingArguments(
        output_dir=str(output_dir), eval_strategy="no", save_strategy="no", load_best_model_at_end=False, use_cpu=True
    )
    model = AutoModel.from_pretrained(folder, **config)
    trainer = SpanNERTrainer(model=model, args=args, processing_class=AutoTokenizer.from_pretrained(folder))
    output = trainer.predict(rows)
    return score_spans(output.predictions, output.label_ids)


def test_numbers_are_those_of_training(
    program: Callable,
    saved_model: Path,
    rows: list,
    write_jsonl: Callable,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    target = tmp_path / "scores.json"
    program("evaluate").main([str(saved_model), str(write_jsonl("rows.jsonl", rows)), "--output", str(target)])
    scores = json.loads(target.read_text(encoding="utf-8"))
    expected = trainer_scores(saved_model, rows, tmp_path)
    assert expected["num_predicted"] > 10
    assert {name: scores[name] for name in expected} == expected
    assert scores["decoding"] == {"threshold": 0.0, "overlap": "nested"}
    printed = capsys.readouterr().out
    assert f"ECE {expected['overall_ece']:.4f}" in printed
    assert [line.split("|")[1].strip() for line in printed.splitlines() if line.startswith("| ")][:4] == [
        "label",
        "-" * len("mean of labels (macro)"),
        "LOC",
        "ORG",
    ]


def test_decoding_parameters_stand_in_for_the_models(
    program: Callable, saved_model: Path, rows: list, write_jsonl: Callable, tmp_path: Path
) -> None:
    target = tmp_path / "scores.json"
    options = ["--threshold", "0.6", "--overlap", "flat", "--output", str(target)]
    program("evaluate").main([str(saved_model), str(write_jsonl("rows.jsonl", rows)), *options])
    scores = json.loads(target.read_text(encoding="utf-8"))
    expected = trainer_scores(saved_model, rows, tmp_path, threshold=0.6, overlap="flat")
    assert scores["decoding"] == {"threshold": 0.6, "overlap": "flat"}
    assert 0 < scores["num_predicted"] == expected["num_predicted"]
    assert scores["num_predicted"] < trainer_scores(saved_model, rows, tmp_path)["num_predicted"]
    assert AutoModel.from_pretrained(saved_model).config.threshold == 0.0


def test_decoding_parameters_are_checked(
    program: Callable, saved_model: Path, rows: list, write_jsonl: Callable
) -> None:
    with pytest.raises(ValueError, match=r"threshold must be a number in \[0, 1\], or one for each label, got 2"):
        program("evaluate").main([str(saved_model), str(write_jsonl("rows.jsonl", rows)), "--threshold", "2"])


def test_text_joined_with_blanks_gives_equal_numbers_where_its_words_are_the_same(
    program: Callable, saved_model: Path, rows: list, write_jsonl: Callable, tmp_path: Path
) -> None:
    target = tmp_path / "scores.json"
    data = str(write_jsonl("rows.jsonl", rows))
    program("evaluate").main([str(saved_model), data, "--joined-text", "--output", str(target)])
    scores = json.loads(target.read_text(encoding="utf-8"))
    for name in ("num_gold", "num_predicted", "num_correct", "overall_f1", "per_label"):
        assert scores["joined_text"][name] == scores[name]
    assert scores["joined_text"]["overall_ece"] == pytest.approx(scores["overall_ece"], abs=1e-6)


def test_gold_in_characters_of_the_joined_text(program: Callable) -> None:
    row = {"tokens": ["in", "New", "York"], "entities": [{"start": 1, "end": 3, "label": "LOC"}]}
    assert program("evaluate").character_entities(row) == [{"start": 3, "end": 11, "label": "LOC"}]


def test_neighbouring_sentences_are_read_as_in_training(
    program: Callable, saved_model: Path, rows: list, tmp_path: Path
) -> None:
    """With context the answer of a row depends on the rows of its document, which the program must hand over."""
    tokenizer = AutoTokenizer.from_pretrained(saved_model)
    together = [row | {"document": "one"} for row in rows]
    apart = [row | {"document": str(place)} for place, row in enumerate(rows)]
    model = AutoModel.from_pretrained(saved_model, context_sentences=2)
    ner = SpanNERPipeline(model=model, tokenizer=tokenizer)
    with_context, _ = predicted_and_gold(ner, together, {}, 32)
    without_context, _ = predicted_and_gold(ner, apart, {}, 32)
    assert with_context != without_context


def test_intervals_are_over_documents_and_the_report_says_of_which(
    program: Callable,
    saved_model: Path,
    rows: list,
    write_jsonl: Callable,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
) -> None:
    """Two rows are of one document, and the others have no name."""
    named = [row | {"document": "one"} if place < 2 else row for place, row in enumerate(rows)]
    target, data = tmp_path / "scores.json", str(write_jsonl("rows.jsonl", named))
    program("evaluate").main([str(saved_model), data, "--num-resamples", "50", "--output", str(target)])
    intervals = json.loads(target.read_text(encoding="utf-8"))["intervals"]
    ner, loaded = judged_model(str(saved_model), data, {})
    predicted, gold = predicted_and_gold(ner, loaded, {}, 32)
    assert intervals == bootstrap_intervals(
        predicted, gold, documents=[row.get("document") for row in named], num_resamples=50
    )
    printed = capsys.readouterr().out
    f1 = intervals["overall_f1"]
    assert f"95% intervals: F1 {100 * f1['low']:.2f} to {100 * f1['high']:.2f}, precision " in printed
    nameless = len(rows) - 2
    assert (
        f"50 resamples of {nameless + 1} documents; {nameless} rows name no document and count as one each" in printed
    )


def test_one_document_has_no_intervals(
    program: Callable, saved_model: Path, rows: list, write_jsonl: Callable, capsys: pytest.CaptureFixture
) -> None:
    data = str(write_jsonl("rows.jsonl", [row | {"document": "one"} for row in rows]))
    program("evaluate").main([str(saved_model), data])
    printed = capsys.readouterr().out
    assert "No intervals: 1 documents\n" in printed
    assert "Maximum calibration error" in printed
    program("evaluate").main([str(saved_model), str(write_jsonl("all.jsonl", rows)), "--num-resamples", "0"])
    assert "No intervals: as asked for\n" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--output", "no_such_folder/x.json"], ["--batch-size", "0"]], ids=" ".join)
def test_impossible_options_are_refused_before_work(
    program: Callable, options: list[str], capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit):
        program("evaluate").main(["model", "data", *options])
    assert f"argument {options[0]}: must be" in capsys.readouterr().err

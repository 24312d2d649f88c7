"""The Trainer of all methods: decoded evaluation over whole rows, optimiser groups, checkpoints, several processes."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import ClassLabel, Dataset, Features, List, Value
from tiny_training import biased, judged_trainer, long_row, trainer_for
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerBase

from hf_spanner import SpanNERModel, SpanNERPipeline, SpanNERTrainer, SpanNERTrainingArguments
from hf_spanner.metrics.span_ner.scoring import score_spans
from hf_spanner.training.resume import is_complete

Rows = list[dict[str, Any]]
Make = Callable[..., SpanNERModel]


def as_tuples(spans: list[dict[str, Any]]) -> list[tuple]:
    return [(span["start"], span["end"], span["label"], round(span["score"], 4)) for span in spans]


def test_default_arguments_train_and_evaluate_rows(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    """Case R-06: no setting is needed to keep the span columns, and the best model can be chosen by F1."""
    trainer = trainer_for(tiny_model(), tokenizer, tmp_path, train_dataset=rows, eval_dataset=rows)
    trainer.train()
    scores = trainer.evaluate()
    assert {"eval_loss", "eval_precision", "eval_recall", "eval_f1", "eval_ece"} <= set(scores)
    assert {"eval_macro_f1", "eval_boundary_f1", "eval_num_gold", "eval_num_predicted", "eval_f1_PER"} <= set(scores)
    assert scores["eval_num_gold"] == sum(len(row["entities"]) for row in rows)
    assert trainer.state.best_metric == scores["eval_f1"]


@pytest.mark.parametrize("batch_size", [2, 3, 5])
def test_the_last_smaller_batch_changes_no_score(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path, batch_size: int
) -> None:
    model = biased(tiny_model())
    scores = trainer_for(model, tokenizer, tmp_path, per_device_eval_batch_size=batch_size).evaluate(rows)
    expected = trainer_for(model, tokenizer, tmp_path, per_device_eval_batch_size=1).evaluate(rows)
    for name in ("eval_loss", "eval_f1", "eval_ece", "eval_num_predicted"):
        assert scores[name] == pytest.approx(expected[name], rel=1e-5)


def test_windows_of_long_rows_are_merged_as_in_the_pipeline(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    """Rows have several windows or one; answers are in the order of the rows, and gold is counted over whole rows."""
    model = biased(tiny_model(window_size=16, window_overlap=6))
    long = [rows[0], long_row(60), rows[4], long_row(25)]
    trainer = trainer_for(model, tokenizer, tmp_path, per_device_eval_batch_size=3)
    output = trainer.predict(long)
    pipe = SpanNERPipeline(model=model, tokenizer=tokenizer, device="cpu")
    answers = pipe([row["tokens"] for row in long], pretokenized=True)
    expected = [
        [
            (entity["word_start"], entity["word_end"], entity["entity_group"], round(entity["score"], 4))
            for entity in entities
        ]
        for entities in answers
    ]
    assert list(map(as_tuples, output.predictions)) == expected
    assert max(end for _, end, _, _ in expected[1]) > 32
    assert output.label_ids == [row["entities"] for row in long]
    assert output.metrics["test_num_gold"] == sum(len(row["entities"]) for row in long)
    assert output.metrics["test_f1"] == score_spans(output.predictions, output.label_ids)["overall_f1"]


def test_gold_that_no_window_holds_is_reported_and_counts_as_missed(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = tiny_model(window_size=10, window_overlap=3)
    row = {"tokens": ["a"] * 30, "entities": [{"start": 4, "end": 18, "label": "ORG"}]}
    twice = {
        "tokens": ["a"],
        "entities": [{"start": 0, "end": 1, "label": "ORG"}, {"start": 0, "end": 1, "label": "PER"}],
    }
    with caplog.at_level(logging.WARNING):
        trainer = trainer_for(model, tokenizer, tmp_path, train_dataset=[row, twice])
    assert "1 longer than overlap, e.g. 'a a" in caplog.text
    assert "1 that the method cannot reach" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        scores = trainer.evaluate([row])
    assert "evaluation data" in caplog.text
    assert "1 longer than overlap" in caplog.text
    assert scores["eval_num_gold"] == 1
    assert scores["eval_recall"] == 0.0


@pytest.mark.parametrize(("overlap", "bound"), [("flat", 1), ("nested", 2)])
def test_evaluation_keeps_few_spans_of_an_untrained_model(
    tiny_model: Make,
    tokenizer: PreTrainedTokenizerBase,
    tmp_path: Path,
    cases: Callable[[str], dict[str, Any]],
    overlap: str,
    bound: int,
) -> None:
    """Case R-06: of N (N + 1) / 2 candidates at most N spans of N words are kept, or 2 N - 1 nested ones."""
    model = biased(tiny_model(overlap=overlap))
    trainer = trainer_for(model, tokenizer, tmp_path)
    num_words = 100
    loader = trainer.get_test_dataloader(trainer._evaluation_windows([long_row(num_words), long_row(num_words)]))
    _, packed, windows = trainer.prediction_step(model, next(iter(loader)), prediction_loss_only=False)
    assert windows.shape == (2, 4)
    assert packed.shape[1] <= bound * num_words - bound + 1
    kept = packed.nbytes / 2 * 2000
    assert kept <= cases("R-06")["expected"]["items"][2]["kept_bytes_max"]
    inputs = {name: value for name, value in next(iter(loader)).items() if name != "windows"}
    assert model.candidate_spans(model(**inputs), model.decoding()).shape[1] > 2000


def test_several_evaluation_sets_have_names_of_their_own(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    sets = {"some": rows[:2], "rest": rows[2:]}
    trainer = trainer_for(tiny_model(), tokenizer, tmp_path, eval_dataset=sets, load_best_model_at_end=False)
    scores = trainer.evaluate()
    assert (scores["eval_some_num_gold"], scores["eval_rest_num_gold"]) == (6, 4)
    assert trainer.evaluate("rest")["eval_num_gold"] == 4


def test_rows_of_the_hub_train_and_are_evaluated_as_they_are(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    """Tags by number in a dataset, or by name in a list; beside empty entities they are refused, not lost."""
    records = [{"tokens": ["Ana", "met", "Bo", "Li"], "ner_tags": [1, 0, 1, 2]}, {"tokens": ["no"], "ner_tags": [0]}]
    names = ["O", "B-PER", "I-PER"]
    dataset = Dataset.from_list(
        records, features=Features({"tokens": List(Value("string")), "ner_tags": List(ClassLabel(names=names))})
    )
    named = [record | {"ner_tags": [names[tag] for tag in record["ner_tags"]]} for record in records]
    trainer = trainer_for(tiny_model(), tokenizer, tmp_path, train_dataset=dataset, eval_dataset=named)
    assert trainer.train_dataset[0]["entities"] == [
        {"start": 0, "end": 1, "label": "PER"},
        {"start": 2, "end": 4, "label": "PER"},
    ]
    trainer.train()
    for rows in (named, dataset):
        assert trainer.evaluate(rows)["eval_num_gold"] == 2
    with pytest.raises(ValueError, match=r"ner_tags is .*two truths"):
        trainer.evaluate([named[0] | {"entities": []}])


def test_no_rows_are_refused(tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path) -> None:
    trainer = trainer_for(tiny_model(), tokenizer, tmp_path)
    for run in (trainer.evaluate, trainer.predict):
        with pytest.raises(ValueError, match="rows must hold at least one row, got none"):
            run([])


def test_nothing_predicted_gives_zero_scores_and_no_calibration_error(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    model = tiny_model()
    with torch.no_grad():
        model.biaffine.bias[-1] = 100.0
    scores = trainer_for(model, tokenizer, tmp_path, per_device_eval_batch_size=2).evaluate(rows)
    assert (scores["eval_f1"], scores["eval_num_predicted"]) == (0.0, 0)
    assert "eval_ece" not in scores


def test_items_of_a_step_are_sentences(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    """They are not the entries of `labels`, which the library would count."""
    trainer = trainer_for(tiny_model(), tokenizer, tmp_path)
    batches = [trainer.span_collator(rows[:3]), trainer.span_collator(rows[3:])]
    for num_batches, num_sentences in ((2, 5), (1, 3), (7, 5)):
        taken, count = trainer.get_batch_samples(iter(batches), num_batches, torch.device("cpu"))
        assert taken == batches[:num_batches]
        assert count.item() == num_sentences


def test_a_checkpoint_that_is_written_again_is_incomplete_until_its_end(
    tiny_model: Make,
    tokenizer: PreTrainedTokenizerBase,
    rows: Rows,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second run fails between the weights and the last file of a checkpoint of the same name."""
    settings = {"train_dataset": rows, "max_steps": 1, "save_strategy": "steps", "save_steps": 1}
    trainer_for(tiny_model(), tokenizer, tmp_path, **settings).train()
    assert is_complete(tmp_path / "checkpoint-1")
    again = trainer_for(tiny_model(), tokenizer, tmp_path, **settings)

    def fail(*_: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match="no room") as error:
        again.train()
    assert not is_complete(tmp_path / "checkpoint-1")
    assert error.value.__notes__[-1].startswith(f"{tmp_path / 'checkpoint-1'} is incomplete, ")


def test_the_best_model_by_f1_is_loaded_at_the_end(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    """F1 of the three epochs is given as 0.1, 0.9 and 0.2, so the second epoch's weights remain; one folder is kept."""
    f1_values = iter([0.1, 0.9, 0.2])
    trainer = judged_trainer(
        tiny_model(), tokenizer, tmp_path, rows, lambda predicted, gold: {"f1": next(f1_values)}, save_total_limit=2
    )
    trainer.train()
    assert trainer.state.best_metric == 0.9
    best = Path(trainer.state.best_model_checkpoint)
    assert best.name == "checkpoint-2"
    weights, last = AutoModel.from_pretrained(best).state_dict(), AutoModel.from_pretrained(tmp_path / "checkpoint-3")
    assert all(torch.equal(value, weights[name]) for name, value in trainer.model.state_dict().items())
    assert not all(torch.equal(value, weights[name]) for name, value in last.state_dict().items())


def test_checkpoint_folders_are_complete_models(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    """The Trainer's own checkpoint-N loads with AutoModel and predicts the same; tokenizer and source lie in it."""
    trainer = trainer_for(tiny_model(), tokenizer, tmp_path, train_dataset=rows, eval_dataset=rows)
    trainer.train()
    folder = next(tmp_path.glob("checkpoint-*"))
    loaded = deepcopy(AutoModel.from_pretrained(folder))
    batch = trainer.span_collator(rows)
    assert torch.equal(loaded(**batch).logits, trainer.model.eval()(**batch).logits)
    assert AutoTokenizer.from_pretrained(folder).vocab_size == tokenizer.vocab_size
    config = json.loads((folder / "config.json").read_text())
    assert config["custom_pipelines"]["span-ner"]["impl"] == "pipeline_span_ner.SpanNERPipeline"
    assert (folder / "pipeline_span_ner.py").is_file()


def test_bf16_trains_on_the_cpu(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    trainer = trainer_for(
        tiny_model(), tokenizer, tmp_path, train_dataset=rows, eval_dataset=rows, bf16=True, max_steps=2
    )
    before = deepcopy(trainer.model.state_dict())
    assert torch.tensor(trainer.train().training_loss).isfinite()
    after = trainer.model.state_dict()
    assert all(value.isfinite().all() for value in after.values())
    assert any(not torch.equal(value, before[name]) for name, value in after.items())
    assert torch.tensor(trainer.evaluate()["eval_loss"]).isfinite()


def test_a_calibration_is_left_out_of_training_and_kept_for_evaluation(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    source = {"name": "dev", "num_rows": 1, "fingerprint": "ab"}
    calibration = {"kind": "temperature", "all": {"temperature": 2.0}, "per_label": {}, "fitted_on": source}
    model = tiny_model(calibration=calibration)
    trainer_for(model, tokenizer, tmp_path, eval_dataset=rows, eval_strategy="no", load_best_model_at_end=False)
    assert model.config.calibration == calibration
    trainer_for(model, tokenizer, tmp_path, train_dataset=rows)
    assert model.config.calibration is None


def test_a_tokenizer_is_needed(tiny_model: Make, tmp_path: Path) -> None:
    args = SpanNERTrainingArguments(output_dir=str(tmp_path), eval_strategy="no", load_best_model_at_end=False)
    with pytest.raises(ValueError, match="processing_class"):
        SpanNERTrainer(model=tiny_model(), args=args)


LAUNCHED = """
import json, sys
import torch
from tiny_training import biased, long_row, trainer_for
from transformers import AutoModel, AutoTokenizer
from hf_spanner import SpanNERTrainer, SpanNERTrainingArguments

torch.set_num_threads(1)
folder, output, batch_size = sys.argv[1:4]
model = AutoModel.from_pretrained(folder)
for module in model.modules():
    if isinstance(module, torch.nn.Dropout):
        module.p = 0.0
rows = json.load(open(folder + "/rows.json"))
args = SpanNERTrainingArguments(
    output_dir=output, use_cpu=True, report_to="none", disable_tqdm=True, max_steps=4, learning_rate=1e-3, optim="sgd",
    lr_scheduler_type="constant", max_grad_norm=0.0, per_device_train_batch_size=int(batch_size),
    per_device_eval_batch_size=1, save_strategy="no", load_best_model_at_end=False, logging_strategy="steps",
    logging_steps=1, eval_strategy="no", train_sampling_strategy="sequential",
)
trainer = SpanNERTrainer(
    model=model, args=args, train_dataset=rows, processing_class=AutoTokenizer.from_pretrained(folder)
)
trainer.train()
scores = trainer.evaluate(rows)
if trainer.is_world_process_zero():
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    kept = {name: scores[name] for name in ("eval_loss", "eval_f1", "eval_num_predicted", "eval_num_gold")}
    json.dump({"losses": losses, "world": args.world_size, **kept}, open(output + ".json", "w"))
trainer.end()
"""


@pytest.mark.slow
def test_launched_processes_train_and_evaluate_like_one(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    """`accelerate launch` starts one process, or two gloo ranks with half the batch each; the number of rows is odd."""
    folder = tmp_path / "model"
    biased(tiny_model(encoder_dropout=0.0)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "rows.json").write_text(json.dumps([*rows, *rows[:4], long_row(30), long_row(15)]))
    script = tmp_path / "launched.py"
    script.write_text(LAUNCHED)
    results = []
    for name, flags, batch_size in (
        ("plain", None, 2),
        ("one", ["--cpu", "--num_processes", "1"], 2),
        ("two", ["--multi_gpu", "--num_processes", "2", "--main_process_port", "0"], 1),
    ):
        launch = [] if flags is None else ["-m", "accelerate.commands.launch", *flags, "--mixed_precision", "no"]
        command = [sys.executable, *launch, str(script), str(folder), str(tmp_path / name), str(batch_size)]
        subprocess.run(command, check=True, timeout=300, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
        results.append(json.loads((tmp_path / f"{name}.json").read_text()))
    plain, one_process, two_processes = results
    assert (one_process.pop("world"), two_processes.pop("world"), plain.pop("world")) == (1, 2, 1)
    assert one_process == plain
    assert two_processes.pop("losses") == pytest.approx(plain.pop("losses"), abs=2e-3)
    assert two_processes == pytest.approx(plain, rel=1e-3)

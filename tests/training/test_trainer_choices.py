"""What a trainer may be given, and what it makes of it: evaluation rows, the best model, `model_init`, arguments."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_training import biased, judged_trainer, long_row, trainer_for
from transformers import PreTrainedTokenizerBase, TrainingArguments

from hf_spanner import SpanNERModel, SpanNERTrainer
from hf_spanner.core.prediction import TextReader
from hf_spanner.training import trainer as trainer_module

Rows = list[dict[str, Any]]
Make = Callable[..., SpanNERModel]


class CountedReader(TextReader):
    """A reader that counts the times that it reads texts."""

    num_reads = 0

    def texts(self, *args: Any) -> Any:
        CountedReader.num_reads += 1
        return super().texts(*args)


@pytest.fixture
def counted_reader(monkeypatch: pytest.MonkeyPatch) -> type[CountedReader]:
    monkeypatch.setattr(trainer_module, "TextReader", CountedReader)
    monkeypatch.setattr(CountedReader, "num_reads", 0)
    return CountedReader


def test_evaluation_rows_are_cut_once_for_all_evaluations(
    tiny_model: Make,
    tokenizer: PreTrainedTokenizerBase,
    rows: Rows,
    tmp_path: Path,
    counted_reader: type[CountedReader],
) -> None:
    """Rows of a call of its own are cut each time; settings may change between the evaluations of the same windows."""
    model = biased(tiny_model())
    trainer = trainer_for(
        model, tokenizer, tmp_path, eval_dataset=rows, eval_strategy="no", load_best_model_at_end=False
    )
    first = trainer.evaluate()
    assert trainer.evaluate()["eval_f1"] == first["eval_f1"]
    assert counted_reader.num_reads == 1
    model.config.threshold = 1.0
    assert trainer.evaluate()["eval_num_predicted"] == 0 < first["eval_num_predicted"]
    assert counted_reader.num_reads == 1
    trainer.eval_dataset = rows[:2]
    assert trainer.evaluate()["eval_num_gold"] == trainer.evaluate(rows[:2])["eval_num_gold"] == 6
    assert counted_reader.num_reads == 3
    assert trainer.evaluate(list(rows))["eval_num_gold"] == first["eval_num_gold"]
    assert counted_reader.num_reads == 4


@pytest.mark.parametrize("is_named", [False, True])
def test_rows_that_can_be_read_once_serve_every_evaluation(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path, is_named: bool
) -> None:
    """A generator as training and as evaluation data, the second alone or under a name."""
    once = (row for row in rows)
    trainer = trainer_for(
        tiny_model(),
        tokenizer,
        tmp_path,
        train_dataset=(row for row in rows),
        eval_dataset={"dev": once} if is_named else once,
        num_train_epochs=2,
        save_strategy="no",
        load_best_model_at_end=False,
        metric_for_best_model="dev_f1" if is_named else "f1",
    )
    trainer.train()
    name = "eval_dev_num_gold" if is_named else "eval_num_gold"
    assert [entry[name] for entry in trainer.state.log_history if name in entry] == [10, 10]
    assert trainer.evaluate()[name] == 10


@pytest.mark.parametrize(("metric", "best_step"), [("loss", 2), ("ece", 3), ("boundary_f1", 1)])
def test_the_best_model_has_the_lowest_loss_or_calibration_error_or_the_highest_score(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path, metric: str, best_step: int
) -> None:
    """The second epoch has the lowest loss, the third the lowest calibration error, the first the highest scores."""
    scores = iter([(0.9, 0.3), (0.5, 0.2), (0.1, 0.1)])

    def metrics(predicted: list, gold: list) -> dict[str, float]:
        score, error = next(scores)
        return {"f1": score, "boundary_f1": score, "ece": error}

    trainer = judged_trainer(tiny_model(), tokenizer, tmp_path, rows, metrics, metric_for_best_model=metric)
    losses, evaluation_loop = iter([2.0, 1.0, 3.0]), trainer.evaluation_loop

    def loop(*args: Any, **kwargs: Any) -> Any:
        output = evaluation_loop(*args, **kwargs)
        output.metrics["eval_loss"] = next(losses)
        return output

    trainer.evaluation_loop = loop
    trainer.train()
    assert trainer.state.best_global_step == best_step


@pytest.mark.parametrize("found_in", [(), (0, 2)])
def test_an_evaluation_without_predictions_is_not_the_best_calibrated(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path, found_in: tuple[int, ...]
) -> None:
    """It has no calibration error; the run goes on, and an epoch that has one is kept, if there is one."""
    errors = iter({"ece": 0.3 - epoch / 10} if epoch in found_in else {} for epoch in range(3))
    trainer = judged_trainer(
        tiny_model(), tokenizer, tmp_path, rows, lambda predicted, gold: next(errors), metric_for_best_model="ece"
    )
    trainer.train()
    assert trainer.state.best_global_step == (max(found_in) + 1 if found_in else None)
    assert ["eval_ece" in entry for entry in trainer.state.log_history if "eval_loss" in entry] == [
        epoch in found_in for epoch in range(3)
    ]


def test_few_rows_are_trained_and_judged_in_parts_of_equal_length(
    tiny_model: Make,
    tokenizer: PreTrainedTokenizerBase,
    rows: Rows,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Three epochs of all rows in one batch would be three steps: for seven there are three parts of three."""
    judged: list[int] = []

    def metrics(*_: Any) -> dict[str, float]:
        judged.append(trainer.state.global_step)
        return {"f1": 0.5}

    trainer = judged_trainer(
        tiny_model(),
        tokenizer,
        tmp_path,
        rows[:5],
        metrics,
        min_steps=7,
        save_strategy="no",
        load_best_model_at_end=False,
    )
    trainer.train()
    assert judged == [3, 6, 9]
    assert trainer.state.global_step == 9
    assert "3 epochs of 5 would be 3 steps; training takes 9" in caplog.text


def test_each_training_counts_its_own_steps(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    """Steps that took the place of too few epochs do not stay for a longer training; delays count the same parts."""
    judged: list[int] = []

    def metrics(*_: Any) -> dict[str, float]:
        judged.append(trainer.state.global_step)
        return {"f1": 0.5}

    trainer = judged_trainer(
        tiny_model(), tokenizer, tmp_path, rows[:5], metrics, min_steps=7, eval_delay=2, save_strategy="no",
        load_best_model_at_end=False,
    )  # fmt: skip
    trainer.train()
    assert judged == [6, 9]
    trainer.args.num_train_epochs = 10
    trainer.train()
    assert judged[2:] == [*range(2, 11)]


@pytest.mark.parametrize(
    ("metric", "named", "message"),
    [
        ("f2", False, "one of loss, f1, precision, .*, f1_LOC, .*, got 'f2'"),
        ("f1_DATE", False, ".* f1_PER, got 'f1_DATE'"),
        ("f1", True, "one of dev_, other_, and then one of loss, f1, .*, got 'f1'"),
    ],
)
def test_a_metric_that_no_evaluation_has_is_refused_before_the_first_step(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path,
    metric: str, named: bool, message: str,
) -> None:  # fmt: skip
    judged = {"dev": rows, "other": rows} if named else rows
    trainer = trainer_for(
        tiny_model(), tokenizer, tmp_path, train_dataset=rows, eval_dataset=judged, metric_for_best_model=metric
    )
    with pytest.raises(ValueError, match=f"metric_for_best_model must be {message}"):
        trainer.train()
    assert trainer.state.global_step == 0
    trainer.args.prediction_loss_only, trainer.args.metric_for_best_model = True, "f1"
    trainer.eval_dataset = rows
    with pytest.raises(ValueError, match="metric_for_best_model must be one of loss, got 'f1'"):
        trainer.train()
    trainer.args.metric_for_best_model = None
    with pytest.raises(ValueError, match="compute_objective must be given where metric_for_best_model is None"):
        trainer.hyperparameter_search()


def test_a_label_that_evaluation_rows_lack_scores_nothing(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    trainer = trainer_for(
        tiny_model(labels=("LOC", "ORG", "PER", "DATE")), tokenizer, tmp_path, train_dataset=rows, eval_dataset=rows,
        metric_for_best_model="f1_DATE",
    )  # fmt: skip
    trainer.model.config.threshold = 1.0
    trainer.train()
    assert trainer.state.best_metric == 0.0


def test_rows_to_evaluate_are_needed(tiny_model: Make, tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="eval_dataset must be rows, here or of the trainer, got None"):
        trainer_for(tiny_model(), tokenizer, tmp_path).evaluate()


def test_a_model_init_makes_the_model_of_each_training(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    """The second model reads narrower windows and further labels, so the same rows are cut anew for it."""
    rows = [*rows, long_row(60)]
    calls = iter([{}, {}, {"window_size": 16, "window_overlap": 6, "labels": ("LOC", "ORG", "PER", "DATE")}])
    made = []

    def model_init() -> SpanNERModel:
        made.append(tiny_model(seed=3, **next(calls)))
        return made[-1]

    trainer = trainer_for(
        None, tokenizer, tmp_path, model_init=model_init, train_dataset=rows, eval_dataset=rows, save_strategy="no",
        load_best_model_at_end=False,
    )  # fmt: skip
    trainer.train()
    assert trainer.model is made[1]
    assert len(trainer.train_dataset) == len(rows)
    trainer.train()
    assert trainer.model is made[2]
    assert len(trainer.train_dataset) > len(rows)
    assert trainer.span_collator.label2id["DATE"] == 3
    assert trainer.evaluate()["eval_num_gold"] == sum(len(row["entities"]) for row in rows)


@pytest.mark.slow
def test_a_search_of_hyperparameters_takes_the_best_trial_by_the_metric_of_the_best_model(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    """The library's own objective would be the sum of all metrics, and its direction the lowest."""
    scores = iter([0.2, 0.7, 0.4])
    trainer = trainer_for(
        None,
        tokenizer,
        tmp_path,
        model_init=lambda trial: tiny_model(),
        train_dataset=rows,
        eval_dataset=rows,
        compute_metrics=lambda predicted, gold: {"f1": next(scores), "num_gold": 10},
        max_steps=1,
    )
    best = trainer.hyperparameter_search(
        lambda trial: {"head_learning_rate": trial.suggest_float("head_learning_rate", 1e-5, 1e-2)},
        n_trials=3,
        backend="optuna",
    )
    rates = [group["lr"] for group in trainer.optimizer.param_groups]
    assert (best.run_id, best.objective) == ("1", 0.7)
    assert set(best.hyperparameters) == {"head_learning_rate"}
    assert max(rates) <= 1e-2


@pytest.mark.parametrize("args", [None, TrainingArguments(output_dir="none", report_to="none", use_cpu=True)])
def test_arguments_of_another_class_are_refused_in_words(
    tiny_model: Make, tokenizer: PreTrainedTokenizerBase, args: Any
) -> None:
    """The library's own would drop the columns of the spans."""
    with pytest.raises(ValueError, match=f"SpanNERTrainer must be SpanNERTrainingArguments, got {type(args).__name__}"):
        SpanNERTrainer(model=tiny_model(), args=args, processing_class=tokenizer)

"""Cases R: training with almost nothing, in half precision, cut into parts, stopped and resumed; evaluation; memory."""

import logging
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from method_facts import facts_of
from tiny_training import QUIET, assert_all_gradients_are_finite, f1, largest_difference, row, trained, without_dropout
from torch import Tensor
from transformers import AutoTokenizer, BertConfig, PreTrainedTokenizerBase, TrainerCallback

from hf_spanner import METHODS, SpanNERCollator, SpanNERModel, SpanNERPipeline
from hf_spanner.core.spans import named_span, unpack_spans
from hf_spanner.methods import trainer_of, training_arguments_of
from hf_spanner.methods.boundary_smoothing.loss_boundary_smoothing import legal_spans, smoothed_targets
from hf_spanner.metrics.span_ner.scoring import score_spans

Case = dict[str, Any]
Rows = list[dict[str, Any]]
Make = Callable[..., SpanNERModel]
LABELS = ("LOC", "ORG", "PER", "X")


@pytest.fixture
def tokenizer(encoder_folders: dict[str, Path], kind: str) -> PreTrainedTokenizerBase:
    """A tokenizer of each kind."""
    return AutoTokenizer.from_pretrained(encoder_folders[kind])


@pytest.fixture
def collator(tokenizer: PreTrainedTokenizerBase) -> SpanNERCollator:
    """The collator for the labels of `LABELS`."""
    return SpanNERCollator(tokenizer, {label: index for index, label in enumerate(LABELS)})


@pytest.fixture
def make(tiny_model: Make, method: str, kind: str) -> Make:
    """Makes a model of the method on the kind's encoder."""
    return lambda **settings: tiny_model(method, kind=kind, **{"labels": LABELS, **settings})


def row_of(item: dict[str, Any]) -> dict[str, Any]:
    """A row of a case as the collator takes it."""
    return row(" ".join(item["tokens"]), *item["spans"])


@pytest.mark.parametrize("case", ["R-01"], indirect=True)
def test_batches_with_almost_nothing(case: Case, make: Make, collator: SpanNERCollator) -> None:
    """The batches are those of the case, and sentences without words."""
    batches = [[row_of(sentence) for sentence in item["data"]] for item in case["input"]["items"]]
    for rows in [*batches, [row(""), row("Ana", (0, 1, "PER"))], [row("")]]:
        model = make().train()
        loss = model(**collator(rows)).loss
        assert loss.isfinite()
        assert loss >= case["expected"]["loss_min"]
        loss.backward()
        assert_all_gradients_are_finite(model)


@pytest.mark.parametrize("case", ["R-01"], indirect=True)
def test_little_data_is_learnt(case: Case, make: Make, collator: SpanNERCollator) -> None:
    for item, wanted in case["expected"]["can_overfit_items"].items():
        rows = [row_of(sentence) for sentence in case["input"]["items"][int(item)]["data"]]
        model, batch = without_dropout(make(encoder_dropout=0.0)).train(), collator(rows)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        for step in range(1000):
            optimizer.zero_grad()
            model(**batch).loss.backward()
            optimizer.step()
            if step % 10 == 9 and f1(model, batch, rows) == wanted:
                break
        assert f1(model, batch, rows) == wanted


@pytest.mark.parametrize("case", ["R-01"], indirect=True)
def test_gold_beyond_the_proposals_is_reported(
    case: Case,
    make: Make,
    tokenizer: PreTrainedTokenizerBase,
    method: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """There are 40 entities, and the tiny model of a method may have fewer proposals; the other methods reach all."""
    rows = [row_of(sentence) for sentence in case["input"]["items"][4]["data"]]
    model = make()
    limit = facts_of(method).most_entities
    lost = 0 if limit is None else 40 - limit
    args = training_arguments_of(method)(
        output_dir=str(tmp_path), eval_strategy="no", save_strategy="no", load_best_model_at_end=False, **QUIET
    )
    with caplog.at_level(logging.INFO, logger="hf_spanner"):
        trainer_of(method)(model=model, args=args, train_dataset=rows, processing_class=tokenizer)
    (told,) = (record for record in caplog.records if "that the method cannot reach" in record.getMessage())
    assert f"40 entities; {lost} that" in told.getMessage()
    assert told.levelno == (logging.WARNING if lost else logging.INFO)


@pytest.mark.parametrize("case", ["R-02"], indirect=True)
def test_half_precision_with_padding(case: Case, make: Make, collator: SpanNERCollator) -> None:
    lengths = case["input"]["lengths"]
    batch = collator([row("Ana met Bo Li in Oslo and then they walked away .", (0, 1, "PER")), row("Oslo")])
    assert batch["word_mask"].sum(dim=1).tolist() == lengths
    for dtype in case["input"]["dtypes"]:
        model = make().to({"float16": torch.float16, "bfloat16": torch.bfloat16}[dtype]).train()
        loss = model(**batch).loss
        assert loss.dtype == torch.float32
        assert loss.isfinite()
        loss.backward()
        assert_all_gradients_are_finite(model)
        with torch.no_grad():
            candidates = unpack_spans(model.eval().candidate_spans(model(**batch), model.decoding()))
        outside = [
            span for spans, length in zip(candidates, lengths, strict=True) for span in spans if span.end > length
        ]
        assert len(outside) == case["expected"]["predicted_spans_in_padding"]


@pytest.mark.parametrize("case", ["R-04"], indirect=True)
def test_gradients_do_not_depend_on_how_a_batch_is_cut(
    case: Case,
    make: Make,
    tokenizer: PreTrainedTokenizerBase,
    rows: Rows,
    method: str,
    whole_steps: Callable[[str], dict[str, Any]],
    tmp_path: Path,
) -> None:
    """The Trainer takes one plain step on four sentences of unlike length, as 4 x 1, 2 x 2 and 1 x 4.

    Our loss is the mean over sentences, and the sums of the case's micro-batches of one sentence each give it.
    """
    sums = [part["sum_of_span_losses"] for part in case["input"]["micro_batches"]]
    assert sum(sums) / len(sums) == case["expected"]["per_sentence_mean_full_batch"]
    fixed = whole_steps(method)
    plain = {"optim": "sgd", "learning_rate": 1e-2, "head_learning_rate": 1e-2, "lr_scheduler_type": "constant"}
    stepped = []
    for size in (4, 2, 1):
        model = without_dropout(make(**fixed))
        sizes = {"per_device_train_batch_size": size, "gradient_accumulation_steps": 4 // size}
        trained(model, tokenizer, rows[:4], tmp_path, max_steps=1, max_grad_norm=0.0, **sizes, **plain)
        stepped.append(model)
    assert largest_difference(stepped[0], make(**fixed)) > 1e-3
    assert largest_difference(stepped[0], stepped[1]) < case["expected"]["tolerance"]
    assert largest_difference(stepped[0], stepped[2]) < case["expected"]["tolerance"]


class SaveAfter(TrainerCallback):
    """Saves a checkpoint after a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_save = state.global_step == self.step


@pytest.mark.parametrize("stop", [pytest.param(5, marks=pytest.mark.slow), 4])  # at the end and inside of an epoch
@pytest.mark.parametrize("case", ["R-05"], indirect=True)
def test_resume_continues_bit_equally_and_seeds_repeat(
    case: Case, make: Make, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path, stop: int
) -> None:
    """Two epochs of five steps are resumed on a model of other weights; sampling of negatives and noise take part."""
    whole = {"per_device_train_batch_size": 2, "num_train_epochs": 2, "learning_rate": 1e-3}
    assert stop in case["input"]["stop_after"]
    ten, callbacks = rows * 2, [SaveAfter(stop)]
    uninterrupted = trained(make(), tokenizer, ten, tmp_path / "run", callbacks=callbacks, **whole)
    assert uninterrupted.state.global_step == case["input"]["total_steps"]
    checkpoint = str(tmp_path / "run" / f"checkpoint-{stop}")
    resumed = trained(make(seed=9), tokenizer, ten, tmp_path / "resumed", resume=checkpoint, **whole)
    assert largest_difference(resumed.model, uninterrupted.model) == case["expected"]["max_abs_diff"]
    again = trained(make(), tokenizer, ten, tmp_path / "again", **whole)
    assert largest_difference(again.model, uninterrupted.model) == 0.0
    other = trained(make(), tokenizer, ten, tmp_path / "other", seed=7, **whole)
    assert largest_difference(other.model, uninterrupted.model) > 0.0


def long_row(length: int) -> dict[str, Any]:
    words = (["Ana", "met", "Bo", "in", "Oslo"] * length)[:length]
    return {
        "tokens": words,
        "entities": [{"start": 5 * i, "end": 5 * i + 1, "label": "PER"} for i in range(length // 5)],
    }


@pytest.fixture
def evaluation(random_tagger: Callable[..., SpanNERPipeline], method: str, kind: str, tmp_path: Path) -> Any:
    """A model that finds entities, and its trainer with default arguments except for the output."""
    tagger = random_tagger(method, kind)
    args = training_arguments_of(method)(
        output_dir=str(tmp_path),
        num_train_epochs=2,
        per_device_eval_batch_size=1,
        **facts_of(method).short_training,
        **QUIET,
    )
    rows = [long_row(5), long_row(40), long_row(17)]
    trainer = trainer_of(method)(
        model=tagger.model, args=args, train_dataset=rows, eval_dataset=rows, processing_class=tagger.tokenizer
    )
    return SimpleNamespace(model=tagger.model, trainer=trainer, rows=rows)


@pytest.mark.parametrize("case", ["R-06"], indirect=True)
def test_evaluation_joins_sentences_of_unlike_length(case: Case, evaluation: Any) -> None:
    """In item 1 each sentence is a batch of its own; loss and F1 are those computed sentence by sentence."""
    predicted, losses = [], []
    for sentence in evaluation.rows:
        output = evaluation.model(**evaluation.trainer.span_collator([sentence]))
        losses.append(output.loss.item())
        spans = evaluation.model.decode(output)[0]
        predicted.append([named_span(span, evaluation.model.config.id2label) for span in spans])
    expected = score_spans(predicted, [sentence["entities"] for sentence in evaluation.rows])
    scores = evaluation.trainer.evaluate()
    assert set(case["expected"]["eval_keys"]) <= set(scores)
    assert scores["eval_f1"] == expected["overall_f1"]
    assert 0 < scores["eval_num_predicted"] == expected["num_predicted"]
    assert scores["eval_loss"] == pytest.approx(sum(losses) / 3, rel=1e-5)


@pytest.mark.parametrize("case", ["R-06"], indirect=True)
def test_default_arguments_train_and_choose_the_best_model(case: Case, evaluation: Any) -> None:
    """Item 0: no setting is needed to keep the span columns."""
    evaluation.trainer.train()
    state = evaluation.trainer.state
    evaluations = [entry for entry in state.log_history if set(case["expected"]["eval_keys"]) <= set(entry)]
    assert state.best_metric == max(entry["eval_f1"] for entry in evaluations)
    assert evaluations[0]["eval_loss"] != evaluations[1]["eval_loss"]


@pytest.mark.parametrize("case", ["R-06"], indirect=True)
def test_evaluation_keeps_spans_and_no_score_tables(case: Case, evaluation: Any) -> None:
    """Two of item 2's 2,000 sentences of 100 words are predicted by a model that finds far too much."""
    trainer = evaluation.trainer
    loader = trainer.get_test_dataloader(trainer._evaluation_windows([long_row(100)]))
    _, packed, _ = trainer.prediction_step(evaluation.model, next(iter(loader)), prediction_loss_only=False)
    assert packed.nbytes * 2000 <= case["expected"]["items"][2]["kept_bytes_max"]


@pytest.mark.parametrize("case", ["R-07"], indirect=True)
def test_smoothed_targets_at_edges_and_where_neighbours_meet(case: Case) -> None:
    """Every listed cell is as listed, all others are none, and every cell sums to 1; unsmoothed, they are one-hot."""
    names = "AB"
    for item, expected in zip(case["input"]["items"], case["expected"]["items"], strict=True):
        gold = torch.tensor([[[start, end, names.index(label)] for start, end, label in item["entities"]]])
        is_legal = legal_spans(torch.ones(1, item["n"], dtype=torch.bool))
        settings = {"distance": item["D"], "num_labels": 2}
        wanted = torch.zeros(item["n"], item["n"], 3)
        wanted[..., -1] = 1.0
        for cell in expected:
            start, end = cell["span"]
            wanted[start, end - 1] = torch.tensor([cell.get("A", 0.0), cell.get("B", 0.0), cell["none"]])
        targets = smoothed_targets(gold, is_legal, epsilon=item["epsilon"], **settings)[0]
        torch.testing.assert_close(targets[is_legal[0]], wanted[is_legal[0]], atol=1e-5, rtol=0)
        hard = smoothed_targets(gold, is_legal, epsilon=0.0, **settings)[0]
        for start, end in {(start, end) for start, end, _ in item["entities"]}:
            labels = [names.index(label) for s, e, label in item["entities"] if (s, e) == (start, end)]
            cell = torch.zeros(3)
            cell[labels] = 1 / len(labels)
            assert torch.equal(hard[start, end - 1], cell)
        assert (hard[is_legal[0]][:, -1] < 1).sum() == len({tuple(span[:2]) for span in item["entities"]})


def peak_bytes(run: Callable[[], Any]) -> int:
    """The most bytes that a call holds at once, beyond those held before it."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return max(accumulate(event.nbytes() for event in events))


@pytest.mark.parametrize("case", ["R-03"], indirect=True)
def test_memory_of_long_sentences(case: Case, method: str) -> None:
    """Scores and loss of one sentence of 768-wide words, at the sizes of the paper and without gradients.

    The case's limit is for Boundary Smoothing; the other methods have limits of their own and the same limit of growth.
    """
    facts = facts_of(method)
    encoder = BertConfig(vocab_size=30, hidden_size=case["input"]["hidden"], intermediate_size=8, num_hidden_layers=1)
    labels = {index: f"L{index}" for index in range(case["input"]["classes"] - 1)}
    config = METHODS[method].config_class(encoder_config=encoder, id2label=labels, lstm_layers=0)
    model, peaks = METHODS[method](config).eval(), {}
    for length in case["input"]["lengths"]:
        words = torch.randn(1, config.num_prompts + length, encoder.hidden_size)
        word_mask = torch.ones(1, length, dtype=torch.bool)
        gold = torch.tensor([[[1, 3, 0], [length - 1, length, 1]]])

        def run(inputs: tuple[Tensor, Tensor] = (words, word_mask), gold: Tensor = gold) -> None:
            output = model.score_spans(*inputs, None, model.decoding())
            model.compute_loss(output, gold)
            if facts.scores_every_span:
                nbytes = output.logits.untyped_storage().nbytes()
                assert nbytes == case["expected"]["score_grid_bytes"][str(inputs[1].shape[1])]

        with torch.no_grad():
            peaks[length] = peak_bytes(run)
    assert peaks[512] < facts.max_mib * 2**20
    assert peaks[512] < case["expected"]["pair_concat_bytes_to_avoid"]
    assert peaks[512] / peaks[256] < case["expected"]["growth_256_to_512_max"]

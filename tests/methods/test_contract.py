"""What every method promises, run over METHODS; no method is named here."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerBase, set_seed

from hf_spanner import METHODS, SpanNERCollator, SpanNERModel, SpanNEROutput, SpanNERPipeline
from hf_spanner.core.spans import Span, unpack_spans
from hf_spanner.methods import trainer_of, training_arguments_of
from hf_spanner.metrics.span_ner.scoring import score_spans
from hf_spanner.training.trainer import SpanNERTrainer, SpanNERTrainingArguments, span_dict

Rows = list[dict[str, Any]]
Make = Callable[..., SpanNERModel]
LABELS = ("LOC", "ORG", "PER")
QUIET = {"report_to": "none", "use_cpu": True, "disable_tqdm": True, "logging_strategy": "no"}


@pytest.fixture(params=sorted(METHODS))
def method(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def model(tiny_model: Make, method: str) -> SpanNERModel:
    return tiny_model(method)


@pytest.fixture
def collator(tokenizer: PreTrainedTokenizerBase) -> SpanNERCollator:
    return SpanNERCollator(tokenizer, {label: index for index, label in enumerate(LABELS)})


def row(words: str, *entities: tuple[int, int, str]) -> dict[str, Any]:
    found = [{"start": start, "end": end, "label": label} for start, end, label in entities]
    return {"tokens": words.split(), "entities": found}


NESTED = [
    row("The University of New York opened .", (0, 5, "ORG"), (3, 5, "LOC"), (1, 5, "ORG")),
    row("Mira Stone works for the Bank of Oslo", (0, 2, "PER"), (5, 8, "ORG"), (7, 8, "LOC")),
    row("Bo Li 's sister visited Lake Tarn", (0, 2, "PER"), (0, 4, "PER"), (5, 7, "LOC"), (6, 7, "LOC")),
]


def sentence_losses(model: SpanNERModel, batch: dict[str, Tensor]) -> tuple[SpanNEROutput, Tensor]:
    """Output and (B,) losses, by the hooks of the method."""
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    words = model.encode(**inputs)
    output = model.score_spans(words, batch["word_mask"], batch["labels"], model.decoding())
    return output, model.compute_loss(output, batch["labels"])


def candidates(model: SpanNERModel, batch: dict[str, Tensor]) -> list[set[Span]]:
    with torch.no_grad():
        output = model(**batch)
        return [set(spans) for spans in unpack_spans(model.candidate_spans(output, model.decoding()))]


def assert_same_spans(left: Sequence[set[Span]], right: Sequence[set[Span]], tolerance: float = 1e-5) -> None:
    assert len(left) == len(right)
    for first, second in zip(left, right, strict=True):
        scores = {span[:3]: span.score for span in first}
        others = {span[:3]: span.score for span in second}
        assert scores.keys() == others.keys()
        for span, score in scores.items():
            assert others[span] == pytest.approx(score, abs=tolerance)


def without_dropout(model: SpanNERModel) -> SpanNERModel:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def trained(
    model: SpanNERModel, tokenizer: PreTrainedTokenizerBase, rows: Rows, folder: Path, **arguments: Any
) -> SpanNERTrainer:
    """A trainer of the method after its steps, without evaluation."""
    name = model.config.model_type
    resume = arguments.pop("resume", None)
    settings = {"save_strategy": "no", **QUIET, "warmup_steps": 0, "save_total_limit": None, **arguments}
    args = training_arguments_of(name)(
        output_dir=str(folder), eval_strategy="no", load_best_model_at_end=False, **settings
    )
    trainer = trainer_of(name)(model=model, args=args, train_dataset=rows, processing_class=tokenizer)
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def largest_difference(first: SpanNERModel, second: SpanNERModel) -> float:
    left, right = first.state_dict(), second.state_dict()
    assert left.keys() == right.keys()
    return max((left[name] - right[name]).abs().max().item() for name in left)


def test_names_and_classes_follow_one_scheme(method: str) -> None:
    """One name for folder, model type and key; classes named after the method; the shared pipeline and forward."""
    model_class = METHODS[method]
    stem = model_class.__name__.removesuffix("Model")
    assert model_class.config_class.model_type == method
    assert model_class.config_class.__name__ == f"{stem}Config"
    assert model_class.__module__ == f"hf_spanner.methods.{method}.modeling_{method}"
    assert model_class.pipeline_class is SpanNERPipeline
    assert model_class.forward is SpanNERModel.forward
    assert model_class.accepts_loss_kwargs is True
    for hook in ("score_spans", "compute_loss", "candidate_spans"):
        assert vars(model_class)[hook] is not vars(SpanNERModel)[hook]
    assert trainer_of(method).__name__ == f"{stem}Trainer"
    assert issubclass(trainer_of(method), SpanNERTrainer)
    assert issubclass(training_arguments_of(method), SpanNERTrainingArguments)


def test_auto_classes_know_the_method(method: str) -> None:
    config = METHODS[method].config_class()
    assert type(AutoConfig.for_model(method)) is type(config)
    assert AutoModel._model_mapping[type(config)] is METHODS[method]


def test_output_extends_the_common_one_and_carries_the_word_mask(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows
) -> None:
    batch = collator(rows)
    output = model(**batch)
    assert isinstance(output, SpanNEROutput)
    assert {"loss", "logits", "word_mask"} <= {field.name for field in fields(output)}
    assert torch.equal(output.word_mask, batch["word_mask"])
    assert len(output.logits) == len(rows)
    assert output.loss.shape == ()


def test_loss_is_one_finite_float32_number_a_sentence(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows
) -> None:
    _, losses = sentence_losses(model, collator(rows))
    assert losses.shape == (len(rows),)
    assert losses.dtype == torch.float32
    assert losses.isfinite().all()
    assert (losses >= 0).all()


def test_loss_of_a_batch_is_the_sum_over_the_number_of_items(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows
) -> None:
    batch = collator(rows)
    _, losses = sentence_losses(model, batch)
    torch.testing.assert_close(model(**batch).loss, losses.mean())
    torch.testing.assert_close(model(**batch, num_items_in_batch=7).loss, losses.sum() / 7)
    torch.testing.assert_close(model(**batch, num_items_in_batch=torch.tensor(9)).loss, losses.sum() / 9)


def test_scores_in_eval_mode_are_pure_and_blind_to_gold(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows
) -> None:
    batch = collator(rows)
    first, second = model(**batch), model(**batch)
    blind = model(**{name: value for name, value in batch.items() if name != "labels"})
    assert torch.equal(first.logits, second.logits)
    assert torch.equal(first.logits, blind.logits)
    assert torch.equal(first.loss, second.loss)
    assert blind.loss is None


def test_padding_adds_no_loss_and_changes_no_span(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows
) -> None:
    """Each sentence alone, and all in one batch padded further than it needs, in tokens, words and gold."""
    batch = collator(rows)
    padded = {
        "input_ids": nn.functional.pad(batch["input_ids"], (0, 5), value=model.config.pad_token_id),
        "attention_mask": nn.functional.pad(batch["attention_mask"], (0, 5)),
        "word_index": nn.functional.pad(batch["word_index"], (0, 5)),
        "word_mask": nn.functional.pad(batch["word_mask"], (0, 3)),
        "labels": nn.functional.pad(batch["labels"], (0, 0, 0, 4), value=-100),
    }
    alone = [collator([one]) for one in rows]
    expected = torch.cat([sentence_losses(model, one)[1] for one in alone])
    torch.testing.assert_close(sentence_losses(model, batch)[1], expected, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(sentence_losses(model, padded)[1], expected, atol=1e-4, rtol=1e-5)
    spans = [candidates(model, one)[0] for one in alone]
    assert_same_spans(candidates(model, batch), spans)
    assert_same_spans(candidates(model, padded), spans)


def test_order_of_the_batch_changes_nothing(model: SpanNERModel, collator: SpanNERCollator, rows: Rows) -> None:
    forward, backward = collator(rows), collator(rows[::-1])
    losses, reversed_losses = sentence_losses(model, forward)[1], sentence_losses(model, backward)[1]
    torch.testing.assert_close(losses, reversed_losses.flip(0), atol=1e-4, rtol=1e-5)
    assert_same_spans(candidates(model, forward), candidates(model, backward)[::-1])


def test_order_and_repeats_of_gold_change_nothing(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows
) -> None:
    changed = [{**one, "entities": [*one["entities"][::-1], *one["entities"]]} for one in rows]
    expected, losses = sentence_losses(model, collator(rows))[1], sentence_losses(model, collator(changed))[1]
    torch.testing.assert_close(losses, expected, atol=1e-5, rtol=1e-6)


def test_candidates_lie_inside_their_sentence_with_a_probability(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows
) -> None:
    batch = collator(rows)
    output = model(**batch)
    packed = model.candidate_spans(output, model.decoding())
    assert packed.shape[0] == len(rows)
    assert packed.shape[2] == 4
    assert packed.dtype == torch.float32
    is_padding = packed[..., 0] < 0
    assert (packed[is_padding] == -100).all()
    for of_sentence, one in zip(unpack_spans(packed), rows, strict=True):
        for span in of_sentence:
            assert 0 <= span.start < span.end <= len(one["tokens"])
            assert 0 <= span.label < len(LABELS)
            assert 0 <= span.score <= 1


def test_a_word_without_tokens_is_no_boundary_and_shifts_nothing(
    model: SpanNERModel, collator: SpanNERCollator
) -> None:
    """A blank word keeps its place; gold on it costs nothing and breaks nothing."""
    words = ["Ana", "\u200b", "met", "Bo", " "]
    gold = [{"start": 3, "end": 4, "label": "PER"}, {"start": 1, "end": 2, "label": "PER"}]
    batch = collator([{"tokens": words, "entities": gold}])
    assert batch["word_mask"].tolist() == [[True, False, True, True, False]]
    assert sentence_losses(model, batch)[1].isfinite().all()
    for span in candidates(model, batch)[0]:
        assert span.start not in (1, 4)
        assert span.end - 1 not in (1, 4)


@pytest.mark.parametrize(
    "few",
    [
        [row("it rains"), row("they wait here")],
        [row("Ana", (0, 1, "PER")), row("rain")],
        [row("Ana met nobody", (0, 1, "PER"))],
        [row("Lake Tarn Lab", (0, 3, "ORG"))],
        [row(" ".join(f"w{i}" for i in range(40)), *[(i, i + 1, "LOC") for i in range(40)])],
        [row(""), row("Ana", (0, 1, "PER"))],
        [row("")],
    ],
    ids=["no entity", "one word", "one entity", "whole sentence", "many entities", "one empty", "all empty"],
)
def test_batches_with_almost_nothing_give_every_parameter_a_gradient(
    model: SpanNERModel, collator: SpanNERCollator, few: Rows
) -> None:
    """Case R-01: no crash, finite loss, and no gradient missing, which would stop training on several processes."""
    model.train()
    loss = model(**collator(few)).loss
    assert loss.isfinite()
    assert loss >= 0
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_with_padding_stays_finite(
    tiny_model: Make, method: str, collator: SpanNERCollator, dtype: torch.dtype
) -> None:
    """Case R-02: twelve words beside one; loss, gradients, and nothing predicted in padding."""
    model = tiny_model(method).to(dtype).train()
    batch = collator([row("Ana met Bo Li in Oslo and then they walked away .", (0, 1, "PER")), row("Oslo")])
    loss = model(**batch).loss
    assert loss.dtype == torch.float32
    assert loss.isfinite()
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    spans = candidates(model.eval(), batch)
    assert all(span.end <= length for of_sentence, length in zip(spans, (12, 1), strict=True) for span in of_sentence)


def test_settings_of_a_call_are_checked_and_change_no_config(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows
) -> None:
    before = model.config.to_dict()
    decoding = model.decoding({"threshold": 0.9, "overlap": "any"})
    assert (decoding["threshold"], decoding["overlap"]) == (0.9, "any")
    assert set(decoding) == set(model.config.decoding_parameters)
    with pytest.raises(TypeError):
        decoding["threshold"] = 0.1  # type: ignore[index]
    for wrong in ({"treshold": 0.5}, {"threshold": 1.5}, {"overlap": "none"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            model(**collator(rows), decoding=wrong)
    model(**collator(rows), decoding={"threshold": 0.9})
    assert model.config.to_dict() == before


def test_decode_gives_resolved_spans_above_the_threshold(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows
) -> None:
    output = model(**collator(rows))
    flat = model.decode(output, {"overlap": "flat"})
    assert len(flat) == len(rows)
    for spans in flat:
        assert all(left.end <= right.start for left, right in zip(spans, spans[1:], strict=False))
    every = {span.score for spans in flat for span in spans}
    cut = sorted(every)[len(every) // 2] if every else 0.5
    kept = model.decode(output, {"overlap": "flat", "threshold": cut})
    assert kept == [[span for span in spans if span.score >= cut] for spans in flat]


def test_nothing_is_unreachable_where_nothing_is_gold(model: SpanNERModel) -> None:
    assert model.unreachable([]) == 0
    assert model.unreachable([(0, 1, 0)]) == 0


def test_unknown_fields_and_labels_are_refused(tiny_model: Make, method: str) -> None:
    with pytest.raises(ValueError, match="afine_size"):
        tiny_model(method, afine_size=3)
    with pytest.raises(ValueError, match="label"):
        tiny_model(method, labels=("A", "A"))


def test_save_and_load_are_bit_equal(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows, tmp_path: Path
) -> None:
    """By AutoModel and by the class; labels and settings too.

    Loaded weights lie in the file's own memory, where matrix products may round otherwise; copies lie as the model's do.
    """
    model.save_pretrained(tmp_path)
    batch = collator(rows)
    for loaded in (AutoModel.from_pretrained(tmp_path), METHODS[model.config.model_type].from_pretrained(tmp_path)):
        assert type(loaded) is type(model)
        assert largest_difference(model, loaded) == 0.0
        assert loaded.config.id2label == model.config.id2label
        copied = deepcopy(loaded)
        assert torch.equal(copied(**batch).logits, model(**batch).logits)
        assert candidates(copied, batch) == candidates(model, batch)


def test_missing_weights_are_an_error(tiny_encoder: Path, model: SpanNERModel, method: str, tmp_path: Path) -> None:
    """An encoder's folder is no span model; a checkpoint for other labels needs the explicit switch."""
    with pytest.raises(ValueError, match="from_encoder|lacks"):
        METHODS[method].from_pretrained(tiny_encoder, config=model.config)
    model.save_pretrained(tmp_path)
    other = {"id2label": {0: "A", 1: "B"}, "label2id": {"A": 0, "B": 1}}
    with pytest.raises(RuntimeError, match="(?i)size|shape|mismatch"):
        METHODS[method].from_pretrained(tmp_path, **other)
    loaded = METHODS[method].from_pretrained(tmp_path, ignore_mismatched_sizes=True, **other)
    assert all(parameter.isfinite().all() for parameter in loaded.parameters())


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
def test_overfits_three_sentences(
    tiny_model: Make, method: str, collator: SpanNERCollator, overlap: str
) -> None:
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
    predicted = [[span_dict(span, model.config.id2label) for span in spans] for spans in decoded]
    return score_spans(predicted, [one["entities"] for one in rows])["overall_f1"]


def test_gradients_do_not_depend_on_how_a_batch_is_cut(
    tiny_model: Make, method: str, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    """Case R-04: one plain step on four sentences of unlike length, as 4 x 1, 2 x 2 and 1 x 4, by the Trainer."""
    stepped = []
    for batch_size in (4, 2, 1):
        model = without_dropout(tiny_model(method, encoder_dropout=0.0))
        trained(
            model,
            tokenizer,
            rows[:4],
            tmp_path,
            per_device_train_batch_size=batch_size,
            gradient_accumulation_steps=4 // batch_size,
            max_steps=1,
            optim="sgd",
            learning_rate=1e-2,
            head_learning_rate=1e-2,
            max_grad_norm=0.0,
            lr_scheduler_type="constant",
        )
        stepped.append(model)
    assert largest_difference(stepped[0], tiny_model(method, encoder_dropout=0.0)) > 1e-3
    assert largest_difference(stepped[0], stepped[1]) < 1e-5
    assert largest_difference(stepped[0], stepped[2]) < 1e-5


def test_resume_continues_bit_equally_and_seeds_repeat(
    tiny_model: Make, method: str, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    """Case R-05: ten steps in two epochs, gone on from step 5 (end of an epoch) and from step 4 (inside one)."""
    whole = {"per_device_train_batch_size": 2, "num_train_epochs": 2, "learning_rate": 1e-3}
    ten = rows * 2
    saving = {**whole, "save_strategy": "steps", "save_steps": 1}
    uninterrupted = trained(tiny_model(method), tokenizer, ten, tmp_path / "run", **saving)
    assert uninterrupted.state.global_step == 10
    for step in (5, 4):
        folder = tmp_path / f"from{step}"
        checkpoint = str(tmp_path / "run" / f"checkpoint-{step}")
        resumed = trained(tiny_model(method, seed=9), tokenizer, ten, folder, resume=checkpoint, **whole)
        assert resumed.state.global_step == 10
        assert largest_difference(resumed.model, uninterrupted.model) == 0.0
    other = trained(tiny_model(method), tokenizer, ten, tmp_path / "other", seed=7, **whole)
    assert largest_difference(other.model, uninterrupted.model) > 0.0
    set_seed(0)
    again = trained(tiny_model(method), tokenizer, ten, tmp_path / "again", **whole)
    assert largest_difference(again.model, uninterrupted.model) == 0.0


def test_activation_checkpointing_equals_the_plain_run(
    tiny_model: Make, method: str, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    runs = [
        trained(tiny_model(method), tokenizer, rows, tmp_path, max_steps=2, activation_checkpointing=switch)
        for switch in (False, True)
    ]
    assert runs[1].model.is_activation_checkpointing
    assert largest_difference(runs[0].model, runs[1].model) < 1e-6

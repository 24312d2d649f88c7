"""What every method promises to the library's own tools, run over METHODS; no method is named."""

import importlib
import warnings
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers.integrations.peft
from bare_process import BareProcess
from method_facts import facts_of
from peft import LoraConfig, PeftModel, get_peft_model
from tiny_training import QUIET, largest_difference, trained, without_dropout
from torch import nn
from torch.ao.quantization import quantize_dynamic
from transformers import AutoModel, PreTrainedTokenizerBase, TorchAoConfig, Trainer, TrainingArguments, set_seed
from transformers.utils import is_torchao_available

from hf_spanner import METHODS, SpanNERCollator, SpanNERModel, SpanNERPipeline

FIRST, *OTHERS = sorted(METHODS)
ONE_FAST = [FIRST, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]  # where the library does the work
Rows = list[dict[str, Any]]
Make = Callable[..., SpanNERModel]
SEED = 3  # of the noise in training, where a method has noise


def plainly_trained(model: SpanNERModel, collator: SpanNERCollator, rows: Rows, folder: Path, **settings: Any) -> Any:
    """A model after one step of plain gradient descent by the library's own Trainer, and what the Trainer logged."""
    arguments = {"max_steps": 1, "learning_rate": 0.1, "max_grad_norm": 0.0, "optim": "sgd", **QUIET, **settings}
    args = TrainingArguments(
        str(folder), remove_unused_columns=False, save_strategy="no", train_sampling_strategy="sequential", **arguments
    )
    model.training_seed = SEED  # type: ignore[assignment]
    trainer = Trainer(model, args, data_collator=collator, train_dataset=rows)
    return trainer.train()


@pytest.mark.parametrize(("size", "accumulation"), [(4, 1), pytest.param(2, 2, marks=pytest.mark.slow), (1, 4)])
def test_the_librarys_trainer_takes_the_mean_over_sentences(
    tiny_model: Make,
    method: str,
    whole_steps: Callable[[str], dict[str, Any]],
    collator: SpanNERCollator,
    rows: Rows,
    tmp_path: Path,
    size: int,
    accumulation: int,
) -> None:
    """Weights, and the loss it tells, are those of one step by hand on the mean loss of four sentences."""
    fields = whole_steps(method)
    expected, trained = (without_dropout(tiny_model(method, **fields)) for _ in range(2))
    expected.training_seed = SEED  # type: ignore[assignment]
    loss = expected.train()(**collator(rows[:4])).loss
    loss.backward()
    torch.optim.SGD(expected.parameters(), lr=0.1).step()
    settings = {"per_device_train_batch_size": size, "gradient_accumulation_steps": accumulation}
    result = plainly_trained(trained, collator, rows[:4], tmp_path, **settings)
    assert result.training_loss == pytest.approx(loss.item(), rel=1e-4)
    assert largest_difference(expected, trained) < 1e-5


def test_the_librarys_trainer_survives_steps_without_entities(
    tiny_model: Make, method: str, collator: SpanNERCollator, rows: Rows, tmp_path: Path
) -> None:
    model, before = tiny_model(method), tiny_model(method)
    empty = [{**row, "entities": []} for row in rows[:4]]
    plainly_trained(model, collator, empty, tmp_path, max_steps=2, per_device_train_batch_size=2)
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert 0 < largest_difference(before, model) < 100


def test_outputs_are_tuples_where_the_call_or_the_configuration_says_so(
    model: SpanNERModel, collator: SpanNERCollator, tokenizer: PreTrainedTokenizerBase, rows: Rows, tmp_path: Path
) -> None:
    """The pipeline and the Trainer are the same with such a configuration."""
    batch = collator(rows)
    entities = SpanNERPipeline(model=model, tokenizer=tokenizer)("Ana met Bo Li in Oslo .", threshold=0.0)
    whole = model(**batch)
    assert_equal(model(**batch, return_dict=False), whole.to_tuple())
    model.config.return_dict = False
    assert_equal(model(**batch), whole.to_tuple())
    assert model(**batch, return_dict=True).keys() == whole.keys()
    assert SpanNERPipeline(model=model, tokenizer=tokenizer)("Ana met Bo Li in Oslo .", threshold=0.0) == entities
    trainer = trained(model, tokenizer, rows, tmp_path, max_steps=1)
    assert trainer.evaluate(rows)["eval_num_gold"] == sum(len(row["entities"]) for row in rows)


def assert_equal(given: Any, expected: Any) -> None:
    """Compare tensors within tuples and dicts."""
    assert type(given) is type(expected)
    if isinstance(given, torch.Tensor):
        assert torch.equal(given, expected)
        return
    assert len(given) == len(expected)
    pairs = (
        [(given[key], expected[key]) for key in given] if isinstance(given, dict) else zip(given, expected, strict=True)
    )
    for first, second in pairs:
        assert_equal(first, second)


def test_states_and_attention_of_the_encoder_are_given_out_when_asked_for(
    tiny_model: Make, method: str, collator: SpanNERCollator, rows: Rows
) -> None:
    """By the call or by the configuration; type prompts come before the tokens; the scores are the same."""
    model, batch = tiny_model(method), collator(rows)
    model.set_attn_implementation("eager")
    plain = model(**batch)
    assert plain.hidden_states is None
    assert plain.attentions is None
    asked = model(**batch, output_hidden_states=True, output_attentions=True)
    length = batch["input_ids"].shape[1] + model.config.num_prompts
    assert [tuple(states.shape) for states in asked.hidden_states] == 3 * [(5, length, 32)]
    assert [tuple(weights.shape) for weights in asked.attentions] == 2 * [(5, 2, length, length)]
    assert torch.equal(asked.logits, plain.logits)
    model.config.output_hidden_states = model.config.output_attentions = True
    assert_equal(model(**batch).hidden_states, asked.hidden_states)
    assert_equal(model(**batch).attentions, asked.attentions)
    assert model(**batch, output_hidden_states=False).hidden_states is None


def test_vectors_may_stand_for_tokens_and_a_mask_may_be_absent(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows
) -> None:
    batch = collator(rows[:1])
    assert batch["attention_mask"].all()
    expected = model(**batch).logits
    del batch["attention_mask"]
    torch.testing.assert_close(model(**batch).logits, expected)
    vectors = model.get_input_embeddings()(batch.pop("input_ids")).detach().requires_grad_()
    output = model(inputs_embeds=vectors, **batch)
    torch.testing.assert_close(output.logits, expected)
    output.loss.backward()
    assert vectors.grad is not None
    assert vectors.grad.abs().sum() > 0
    with pytest.raises(ValueError, match="word_index, word_mask and one of input_ids and inputs_embeds must be given"):
        model(**batch)


def test_weights_may_be_given_without_a_folder(model: SpanNERModel) -> None:
    config, weights = deepcopy(model.config), model.state_dict()
    loaded = type(model).from_pretrained(None, config=config, state_dict=dict(weights))
    assert largest_difference(model, loaded) == 0.0
    weights.popitem()
    with pytest.raises(ValueError, match="lacks 1 weights"):
        type(model).from_pretrained(None, config=config, state_dict=weights)


def heads(model: SpanNERModel) -> list[str]:
    """Names of the parts beside the encoder that hold weights."""
    return [name for name, part in model.named_children() if name != "word_encoder" and list(part.parameters())]


@pytest.mark.parametrize("task_type", [None, "TOKEN_CLS", "FEATURE_EXTRACTION"])
def test_lora_with_heads_trains_and_loads_again(
    tiny_model: Make, method: str, collator: SpanNERCollator, rows: Rows, tmp_path: Path, task_type: str | None
) -> None:
    model, batch = tiny_model(method), collator(rows)
    before = model(**batch).logits
    lora = LoraConfig(target_modules=["query", "value"], modules_to_save=heads(model), task_type=task_type)
    tuned = get_peft_model(model, lora)
    optimizer = torch.optim.SGD([weight for weight in tuned.parameters() if weight.requires_grad], lr=0.1)
    tuned.train()(**batch).loss.backward()
    optimizer.step()
    with torch.no_grad():
        after = tuned.eval()(**batch).logits
        assert after.shape != before.shape or not torch.allclose(after, before)
        tuned.save_pretrained(tmp_path)
        loaded = PeftModel.from_pretrained(tiny_model(method), tmp_path).eval()
        torch.testing.assert_close(loaded(**batch).logits, after)
        torch.testing.assert_close(tuned.merge_and_unload().eval()(**batch).logits, after)


@pytest.mark.parametrize("method", ONE_FAST, indirect=True)
def test_an_added_adapter_is_saved_in_checkpoints_and_loads_onto_its_model(
    model: SpanNERModel,
    collator: SpanNERCollator,
    tokenizer: PreTrainedTokenizerBase,
    rows: Rows,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The folder has the adapter alone, for which the library fetches the model that it belongs to."""
    monkeypatch.setattr(transformers.integrations.peft, "MIN_PEFT_VERSION", "0.21.0")  # no later one is released
    model.save_pretrained(tmp_path / "whole")
    tuned = type(model).from_pretrained(tmp_path / "whole")
    tuned.add_adapter(LoraConfig(target_modules=["query", "value"], modules_to_save=heads(model)))
    trained(
        tuned, tokenizer, rows, tmp_path / "run", max_steps=1, save_strategy="steps", learning_rate=0.01, save_steps=1
    )
    tuned.save_pretrained(tmp_path / "adapter")
    with torch.no_grad():
        expected = tuned.eval()(**collator(rows))
    for folder in (tmp_path / "adapter", tmp_path / "run" / "checkpoint-1"):
        names = {path.name for path in folder.iterdir()}
        assert {"adapter_config.json", "adapter_model.safetensors"} <= names
        assert not {"config.json", "model.safetensors"} & names
        for loader in (AutoModel, type(model)):
            loaded = loader.from_pretrained(folder)
            with torch.no_grad():
                assert torch.equal(loaded.eval()(**collator(rows)).loss, expected.loss)
    assert not torch.equal(model(**collator(rows)).loss, expected.loss)


def test_lora_on_every_linear_layer_learns_and_merges(
    tiny_model: Make, method: str, collator: SpanNERCollator, rows: Rows
) -> None:
    model, batch = tiny_model(method, **facts_of(method).every_part), collator(rows)
    tuned = get_peft_model(model, LoraConfig(target_modules="all-linear", init_lora_weights=False)).eval()
    output = tuned(**batch)
    output.loss.backward()
    adapters = {name: weight for name, weight in tuned.named_parameters() if "lora_" in name}
    assert all(weight.grad is not None for weight in adapters.values())
    torch.testing.assert_close(tuned.merge_and_unload()(**batch).loss, output.loss, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.skipif(not is_torchao_available(), reason="torchao is not installed")
@pytest.mark.parametrize("kind", ["Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig"])
def test_a_model_loads_quantised_by_torchao_and_is_saved_so(
    tiny_model: Make, method: str, collator: SpanNERCollator, rows: Rows, tmp_path: Path, kind: str
) -> None:
    """With every part that a head may have; of its linear layers all weights but the model's last are 8 bits wide."""
    model, batch = tiny_model(method, **facts_of(method).every_part), collator(rows)
    model.save_pretrained(tmp_path)
    settings = TorchAoConfig(getattr(importlib.import_module("torchao.quantization"), kind)())
    loaded = AutoModel.from_pretrained(tmp_path, quantization_config=settings)
    layers = [module for module in loaded.modules() if isinstance(module, nn.Linear)]
    assert sum(type(layer.weight) is nn.Parameter for layer in layers) <= 1
    with torch.no_grad():
        output, expected = loaded(**batch), model(**batch)
        assert output.loss.item() == pytest.approx(expected.loss.item(), rel=0.1)
        assert loaded.candidate_spans(output, loaded.decoding()).shape[0] == len(rows)
        loaded.save_pretrained(tmp_path / "quantised")
        again = AutoModel.from_pretrained(tmp_path / "quantised")
        assert again(**batch).loss.item() == pytest.approx(output.loss.item(), rel=1e-5)


def test_linear_layers_are_quantised_dynamically(
    tiny_model: Make, method: str, collator: SpanNERCollator, rows: Rows
) -> None:
    model, batch = tiny_model(method, **facts_of(method).every_part), collator(rows)
    model(**batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        quantised = quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    with torch.no_grad():
        output = quantised(**batch)
    assert output.loss.item() == pytest.approx(model(**batch).loss.item(), rel=0.1)
    assert quantised.candidate_spans(output, quantised.decoding()).shape[0] == len(rows)


def test_a_model_saved_in_shards_loads_equal(model: SpanNERModel, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    assert largest_difference(model, AutoModel.from_pretrained(tmp_path)) == 0.0


def test_a_device_map_places_the_model(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows, tmp_path: Path
) -> None:
    model.save_pretrained(tmp_path)
    for device_map in ("cpu", {"": "cpu"}, {"word_encoder": "cpu", **dict.fromkeys(heads(model), "cpu")}):
        placed = AutoModel.from_pretrained(tmp_path, device_map=device_map)
        assert {weight.device.type for weight in placed.parameters()} == {"cpu"}
        assert torch.allclose(placed(**collator(rows)).loss, model(**collator(rows)).loss)


def test_gradients_with_checkpointing_are_those_without(
    tiny_model: Make, method: str, collator: SpanNERCollator, rows: Rows
) -> None:
    """With dropout: the encoder's layers are made anew in the backward pass with the same masks."""
    batch = collator(rows)
    gradients = []
    for is_checkpointing in (False, True):
        model = tiny_model(method).train()
        model.training_seed = SEED  # type: ignore[assignment]
        if is_checkpointing:
            model.gradient_checkpointing_enable()
        set_seed(1)
        model(**batch).loss.backward()
        gradients.append({name: weight.grad for name, weight in model.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient)


@pytest.mark.slow
def test_a_compiled_model_gives_the_same_loss_and_gradients(
    tiny_model: Make,
    method: str,
    whole_steps: Callable[[str], dict[str, Any]],
    collator: SpanNERCollator,
    rows: Rows,
) -> None:
    model, batch = without_dropout(tiny_model(method, **whole_steps(method))).train(), collator(rows)
    model.training_seed = SEED  # type: ignore[assignment]
    model(**batch).loss.backward()
    expected = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    loss = model(**batch).loss.item()
    model.zero_grad()
    compiled = torch.compile(model, backend="aot_eager")  # its graphs without minutes of a C++ compiler
    output = compiled(**batch)
    output.loss.backward()
    assert output.loss.item() == pytest.approx(loss, rel=1e-4)
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight.grad, expected[name], atol=1e-4, rtol=1e-3)


BARE_TRAINING = """
import sys

import torch
from transformers import AutoModel, Trainer, TrainingArguments

folder, batch = sys.argv[1], torch.load("batch.pt")
model = AutoModel.from_pretrained(folder, trust_remote_code=True)
names = [name for name in batch]
rows = [{name: batch[name][row] for name in names} for row in range(len(batch["labels"]))]
args = TrainingArguments("out", max_steps=20, learning_rate=3e-3, report_to="none", use_cpu=True, disable_tqdm=True)
trainer = Trainer(model, args, train_dataset=rows, eval_dataset=rows)
before = trainer.evaluate()["eval_loss"]
trainer.train()
trainer.save_model(folder + "-tuned")
print("LOSSES", before, trainer.evaluate()["eval_loss"])
"""


@pytest.mark.slow
def test_a_shipped_model_is_fine_tuned_by_the_librarys_trainer_without_the_package(
    model: SpanNERModel, collator: SpanNERCollator, rows: Rows, tmp_path: Path, bare_process: BareProcess
) -> None:
    """The loss falls, and the package loads what was saved."""
    model.save_pretrained(tmp_path / "shipped")
    torch.save(collator(rows), tmp_path / "batch.pt")
    printed = bare_process.run(BARE_TRAINING, tmp_path / "shipped", cwd=tmp_path)
    before, after = map(float, printed.rpartition("LOSSES")[2].split())
    assert after < 0.9 * before
    tuned = AutoModel.from_pretrained(tmp_path / "shipped-tuned")
    assert type(tuned) is type(model)
    assert tuned.eval()(**collator(rows)).loss.item() == pytest.approx(after, rel=1e-4)

"""A tiny model, a collator and a trainer for each method."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from method_facts import facts_of
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PreTrainedTokenizerBase

from hf_spanner import METHODS, SpanNERCollator, SpanNERModel
from hf_spanner.methods import trainer_of, training_arguments_of
from hf_spanner.training.trainer import SpanNERTrainer

LABELS = ("LOC", "ORG", "PER")


class LargestTensor(TorchDispatchMode):
    """Notes the number of elements of the largest tensor that is made inside."""

    def __init__(self) -> None:
        super().__init__()
        self.num_elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(value, Tensor):
                self.num_elements = max(self.num_elements, value.untyped_storage().size() // value.element_size())
        return result


class NoSynchronisation(TorchDispatchMode):
    """Fails where a number would travel from the device to the host."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func.overloadpacket not in (torch.ops.aten._local_scalar_dense, torch.ops.aten.nonzero), func
        return func(*args, **(kwargs or {}))


@pytest.fixture
def largest_tensor() -> LargestTensor:
    """A mode to enter; its `num_elements` then says how large a tensor grew."""
    return LargestTensor()


@pytest.fixture
def no_synchronisation() -> NoSynchronisation:
    """A mode to enter, in which nothing may wait for the device."""
    return NoSynchronisation()


@pytest.fixture(params=sorted(METHODS))
def method(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def model(tiny_model: Callable[..., SpanNERModel], method: str) -> SpanNERModel:
    return tiny_model(method)


@pytest.fixture
def collator(tokenizer: PreTrainedTokenizerBase) -> SpanNERCollator:
    return SpanNERCollator(tokenizer, {label: index for index, label in enumerate(LABELS)})


@pytest.fixture
def trainer_for(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> Callable[..., SpanNERTrainer]:
    """Makes a trainer of the model's method for one epoch in order, without output: `trainer_for(model, rows, ...)`."""

    def make(model: SpanNERModel, rows: list[dict[str, Any]], **arguments: Any) -> SpanNERTrainer:
        name = model.config.model_type
        args = training_arguments_of(name)(
            output_dir=str(tmp_path),
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
            eval_strategy="no",
            save_strategy="no",
            load_best_model_at_end=False,
            train_sampling_strategy="sequential",
            **{"num_train_epochs": 1, **facts_of(name).short_training, **arguments},
        )
        return trainer_of(name)(model=model, args=args, train_dataset=rows, processing_class=tokenizer)

    return make

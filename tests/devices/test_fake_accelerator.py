"""Every method on an accelerator that is not there: all tensors on one device, and every wait for it known by its line.

Under torch's FakeTensorMode tensors have a shape and a device and no values. So a model of the device "cuda" runs on
any machine, a tensor on another device is an error, and so is a step whose shapes hang on values, unless it says so. It
takes a torch that was built for CUDA: run `make test-devices`.
"""

import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from method_facts import facts_of
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode

import hf_spanner
from hf_spanner import METHODS, SpanNERModel
from hf_spanner.core.word_encoder import WordEncoder
from hf_spanner.methods.diffusion_ner import modeling_diffusion_ner

pytestmark = pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="torch without CUDA: make test-devices")
PACKAGE = Path(hf_spanner.__file__).parent
aten = torch.ops.aten
# Where the host waits, and how often in a batch: lengths for the LSTM, costs for the matching, and rows that are picked
# by what they hold, since their number is the size of what follows. In training only Locate and Label picks.
LSTM, TABLE = {"word_encoder.recur": 1}, {"spans.pack_candidates": 1}
TRAINING = {
    "boundary_smoothing": LSTM,
    "locate_and_label": LSTM | {"modeling_locate_and_label._sampled_spans": 1},
    "diffusion_ner": LSTM | {"loss_diffusion_ner.matched_gold": 1},
    "bopn": LSTM,
}
PREDICTION = {
    "boundary_smoothing": LSTM | TABLE | {"modeling_boundary_smoothing.candidate_spans": 1},
    "locate_and_label": LSTM
    | {
        "modeling_locate_and_label.score_spans": 1,
        "modeling_locate_and_label._proposals": 2,
        "modeling_locate_and_label.found_labels": 1,
        "modeling_locate_and_label.candidate_spans": 2,
    },  # Soft-NMS on the host
    "diffusion_ner": LSTM
    | TABLE
    | {
        "process_diffusion_ner.distinct_spans": 5,  # one for each step
        "modeling_diffusion_ner.candidate_spans": 2,
        "modeling_diffusion_ner.first_of_each": 1,
    },
    "bopn": LSTM | TABLE | {"votes_bopn.labelled_cells": 3, "votes_bopn.voted_entities": 3},
}


class Waits(TorchDispatchMode):
    """Counts what makes the host wait for the device, by module and function of the package's line.

    Values that are asked for are made up, 2 for each number and 4 rows wherever the size hangs on values, so that what
    comes after runs as well. A list of numbers is one wait.
    """

    def __init__(self) -> None:
        super().__init__()
        self.places: Counter[str] = Counter()
        self.last: tuple[Any, str] | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        on_device = bool(args) and isinstance(args[0], Tensor) and args[0].device.type == "cuda"
        made_up = self._made_up(func, args, kwargs or {}) if on_device else None
        result = func(*args, **(kwargs or {})) if made_up is None else made_up
        copies = func in (aten._to_copy.default, aten.copy_.default) and result.device.type == "cpu"
        if made_up is not None or (on_device and copies):
            self._count(func)
        elif on_device:
            self.last = None
        return result

    def _count(self, func: Any) -> None:
        frames = [frame for frame in traceback.extract_stack() if Path(frame.filename).is_relative_to(PACKAGE)]
        place = f"{Path(frames[-1].filename).stem}.{frames[-1].name}" if frames else "elsewhere"
        self.places[place] += (func, place) != self.last or func is not aten._local_scalar_dense.default
        self.last = func, place

    @staticmethod
    def _made_up(func: Any, args: Any, kwargs: Any) -> Any:
        table = args[0]
        if func is aten._local_scalar_dense.default:
            return 2.0 if table.is_floating_point() else table.dtype == torch.bool or 2
        if func is aten.nonzero.default:
            return table.new_zeros(4, table.dim(), dtype=torch.long)
        if func is aten.bincount.default:
            return table.new_zeros(4)
        if func is aten.unique_dim.default:
            dim, length = args[1], table.shape[args[1]]
            unique = table.new_zeros([4 if place == dim else size for place, size in enumerate(table.shape)])
            return unique, table.new_zeros(length, dtype=torch.long), table.new_zeros(4, dtype=torch.long)
        if func is aten._unique2.default:
            whole = table.new_zeros(table.shape, dtype=torch.long)
            return table.new_zeros(4), whole, table.new_zeros(4, dtype=torch.long)
        if func is aten.index.Tensor and any(index is not None and index.dtype == torch.bool for index in args[1]):
            (mask,) = args[1]
            return table.new_zeros(4, *table.shape[mask.dim() :])
        return None


@pytest.fixture
def on_cuda(encoder_folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Callable]:
    """Of a method, what makes a model with all of its parts and a batch, both on a device that is not there.

    Two steps read values on the host by design, the lengths for the LSTM and the costs of the matching. They copy here
    as there and go on with made-up values of the right shape.
    """

    def recur(self: WordEncoder, words: Tensor, lengths: Tensor) -> Tensor:
        lengths.cpu()
        return words.new_zeros(*words.shape[:2], self.output_size)  # cuDNN asks for a real device

    def matched_gold(costs: Tensor, span_mask: Tensor | None, *, repeat_targets: bool) -> Tensor:
        costs.detach().cpu()
        return costs.new_zeros(costs.shape[:2], dtype=torch.long)

    recur.__code__ = recur.__code__.replace(co_filename=str(PACKAGE / "core" / "word_encoder.py"))
    matched_gold.__code__ = matched_gold.__code__.replace(
        co_filename=str(PACKAGE / "methods" / "diffusion_ner" / "loss_diffusion_ner.py")
    )
    monkeypatch.setattr(Tensor, "numpy", lambda tensor: np.zeros(tensor.shape))  # after `cpu`, which is counted
    monkeypatch.setattr(WordEncoder, "recur", recur)
    monkeypatch.setattr(modeling_diffusion_ner, "matched_gold", matched_gold)

    def make(method: str) -> Callable[[], tuple[SpanNERModel, dict[str, Tensor]]]:
        facts = facts_of(method)
        fields = {**facts.tiny, **facts.every_part, "lstm_layers": 1, "lstm_size": 16, "word_features": "shapes"}
        config = METHODS[method].from_encoder(encoder_folders["wordpiece"], ["LOC", "ORG", "PER"], **fields).config

        def on_device() -> tuple[SpanNERModel, dict[str, Tensor]]:
            with torch.device("cuda"):
                model = METHODS[method](config)
                index = torch.ones(2, 9, dtype=torch.long)
                batch = {
                    "input_ids": index,
                    "attention_mask": index,
                    "word_index": index,
                    "word_mask": torch.ones(2, 7, dtype=torch.bool),
                    "word_shapes": torch.ones(2, 7, dtype=torch.long),
                    "labels": torch.ones(2, 4, 3, dtype=torch.long),
                }
            model.training_seed = 3
            return model, batch

        return on_device

    return make


@pytest.fixture
def no_values() -> FakeTensorMode:
    """Tensors without values, of which sizes that hang on values are symbols."""
    return FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())


@pytest.mark.parametrize("method", METHODS)
def test_a_training_step_stays_on_its_device_and_waits_where_it_must(
    method: str, on_cuda: Callable, no_values: FakeTensorMode
) -> None:
    on_device = on_cuda(method)
    with no_values:
        model, batch = on_device()
        with Waits() as waits:
            loss = model.train()(**batch).loss
    assert loss.device.type == "cuda"
    assert dict(waits.places) == TRAINING[method]


@pytest.mark.parametrize("method", METHODS)
def test_a_prediction_stays_on_its_device_and_waits_where_it_must(
    method: str, on_cuda: Callable, no_values: FakeTensorMode
) -> None:
    on_device = on_cuda(method)
    with no_values, torch.no_grad():
        model, batch = on_device()
        del batch["labels"]
        with Waits() as waits:
            candidates = model.eval().candidate_spans(model(**batch), model.decoding())
    assert candidates.device.type == "cuda"
    assert dict(waits.places) == PREDICTION[method]


def test_a_tensor_on_another_device_is_seen(no_values: FakeTensorMode) -> None:
    with no_values, pytest.raises(RuntimeError, match="device"):
        torch.ones(3, device="cuda") + torch.ones(3)


def test_every_kind_of_wait_is_seen(no_values: FakeTensorMode) -> None:
    def waits_of(call: Callable[[Tensor], Any]) -> int:
        with no_values:
            table = torch.ones(3, 3, device="cuda")
            with Waits() as waits:
                call(table)
        return waits.places.total()

    seen: list[Callable[[Tensor], Any]] = [
        lambda table: table.cpu(),
        lambda table: table.sum().item(),
        lambda table: table[0].tolist(),
        lambda table: table.nonzero(),
        lambda table: table[table > 0],
        lambda table: table.unique(),
        lambda table: table.unique(dim=0),
        lambda table: table[0].long().bincount(),
    ]
    assert [waits_of(call) for call in seen] == [1] * len(seen)
    assert waits_of(lambda table: (table @ table).cumsum(dim=0).argmax(dim=1)) == 0

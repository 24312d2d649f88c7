"""The common tests that transformers runs over its own models, run over ours: `make test-library`."""

from typing import Any
from unittest import TestCase, skip

import torch
from method_facts import facts_of
from suite_of_transformers import ConfigTester, ModelTesterMixin
from torch import Tensor
from transformers import BertConfig

from hf_spanner import METHODS

NOT_APPLICABLE = {
    "test_correct_missing_keys": "a checkpoint that lacks weights is refused (decision 0009)",
    "test_model_weights_reload_no_missing_tied_weights": "a checkpoint that lacks weights is refused (decision 0009)",
    "test_model_outputs_equivalence": "it subtracts outputs, one of them bool; test_contract_library.py compares them",
}


class SpanModelTester:
    """What the suite asks for: a tiny configuration and a batch."""

    batch_size, seq_length, num_words = 7, 9, 5
    num_hidden_layers, num_attention_heads, hidden_size = 2, 2, 32
    vocab_size = 99
    is_training = True

    def __init__(self, method: str) -> None:
        self.method = method
        self.encoder_seq_length = self.seq_length + self.get_config().num_prompts

    def get_config(self) -> Any:
        """A configuration with sizes of its own everywhere."""
        encoder = BertConfig(
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            num_hidden_layers=self.num_hidden_layers,
            num_attention_heads=self.num_attention_heads,
            intermediate_size=37,
            max_position_embeddings=64,
        )
        fields = {"lstm_size": 16, **facts_of(self.method).tiny, **facts_of(self.method).whole_steps}
        return METHODS[self.method].config_class(encoder_config=encoder, num_labels=3, **fields)

    def prepare_config_and_inputs_for_common(self) -> tuple[Any, dict[str, Tensor]]:
        """Words of one or two tokens between two special ones."""
        index = torch.tensor([0, 1, 1, 2, 3, 4, 4, 5, 0]).repeat(self.batch_size, 1)
        inputs = {
            "input_ids": torch.randint(5, self.vocab_size, (self.batch_size, self.seq_length)),
            "attention_mask": torch.ones(self.batch_size, self.seq_length, dtype=torch.long),
            "word_index": index,
            "word_mask": torch.ones(self.batch_size, self.num_words, dtype=torch.bool),
        }
        return self.get_config(), inputs


class CommonTests(ModelTesterMixin):
    """The suite for one method."""

    method: str
    additional_model_inputs = ("word_index", "word_mask")

    def setUp(self) -> None:
        """Hand the suite what it asks for."""
        self.model_tester = SpanModelTester(self.method)
        self.config_tester = ConfigTester(self, METHODS[self.method].config_class, common_properties=["hidden_size"])

    def _prepare_for_class(self, inputs_dict: dict, model_class: type, return_labels: bool = False) -> dict:
        inputs = super()._prepare_for_class(inputs_dict, model_class, return_labels)
        if return_labels:
            inputs["labels"] = torch.tensor([[[0, 2, 0], [3, 4, 2]]]).repeat(self.model_tester.batch_size, 1, 1)
        return inputs

    def test_config(self) -> None:
        """The configuration's own suite."""
        self.config_tester.run_common_tests()


for name in sorted(METHODS):
    skipped = {test: skip(reason)(lambda self: None) for test, reason in NOT_APPLICABLE.items()}
    stem = METHODS[name].__name__.removesuffix("Model")
    bases = (CommonTests, TestCase)
    globals()[f"Test{stem}"] = type(
        f"Test{stem}", bases, {"method": name, "all_model_classes": (METHODS[name],), **skipped}
    )

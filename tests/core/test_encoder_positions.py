"""The capacity is exact for encoders with every kind of position, and asking for it takes no memory."""

from operator import attrgetter
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModel, BertConfig, DistilBertConfig, PreTrainedConfig, XLNetConfig

from hf_spanner.core.encoder_positions import position_capacity

TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 30}
# Name of the configuration, fields beside 20 positions, capacity, whether the encoder has a table that ends there.
ENCODERS: list[tuple[str, dict[str, Any], int, bool]] = [
    ("Bert", {}, 20, True),
    ("Roberta", {"pad_token_id": 1}, 18, True),
    ("Roberta", {"pad_token_id": 3}, 16, True),
    ("XLMRoberta", {"pad_token_id": 1}, 18, True),
    ("XLMRobertaXL", {"pad_token_id": 1}, 18, True),
    ("Camembert", {"pad_token_id": 1}, 18, True),
    ("MPNet", {"pad_token_id": 0}, 18, True),  # its first position is 2 in any case
    ("Longformer", {"pad_token_id": 1, "attention_window": 4}, 18, True),
    ("RobertaPreLayerNorm", {"pad_token_id": 1}, 18, True),
    ("Data2VecText", {"pad_token_id": 1}, 18, True),
    ("IBert", {"pad_token_id": 1}, 18, True),
    ("Xmod", {"pad_token_id": 1, "default_language": "en_XX"}, 18, True),
    ("Esm", {"pad_token_id": 1, "mask_token_id": 2, "position_embedding_type": "absolute"}, 18, True),
    ("Esm", {"pad_token_id": 1, "mask_token_id": 2, "position_embedding_type": "rotary"}, 20, False),
    ("Luke", {"pad_token_id": 1, "entity_vocab_size": 5, "entity_emb_size": 16}, 18, True),
    ("MarkupLM", {"pad_token_id": 1}, 18, True),
    ("Lilt", {"pad_token_id": 1, "hidden_size": 48}, 18, True),
    ("DebertaV2", {}, 20, True),
    ("DebertaV2", {"relative_attention": True, "position_biased_input": False}, 20, False),
    (
        "ModernBert",
        {"pad_token_id": 0, **dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id"), 1)},
        20,
        False,
    ),
    ("Electra", {"embedding_size": 16}, 20, True),
    ("Albert", {"embedding_size": 16}, 20, True),
    ("Nystromformer", {"num_landmarks": 4, "segment_means_seq_len": 4}, 20, True),  # a table of 22, two not used
    ("RoFormer", {"embedding_size": 16}, 20, True),  # another table, of sines
]


def is_read(encoder: torch.nn.Module, num_tokens: int) -> bool:
    ids = torch.full((1, num_tokens), 5)
    try:
        with torch.no_grad():
            encoder(ids, attention_mask=torch.ones_like(ids))
    except (IndexError, RuntimeError):
        return False
    return True


@pytest.mark.parametrize(("kind", "fields", "capacity", "has_table"), ENCODERS)
def test_the_capacity_is_read_and_one_token_more_is_not(
    kind: str, fields: dict[str, Any], capacity: int, has_table: bool
) -> None:
    """This holds where a table ends; an encoder without one has been trained with no more than it states."""
    config_class: type[PreTrainedConfig] = attrgetter(f"{kind}Config")(transformers)
    config = config_class(**{**TINY, "max_position_embeddings": 20, **fields})
    assert position_capacity(config) == capacity
    encoder = AutoModel.from_config(config).eval()
    assert is_read(encoder, capacity)
    assert is_read(encoder, capacity + 1) is not has_table


def test_names_of_its_own_and_no_number_at_all() -> None:
    distilbert = DistilBertConfig(dim=16, n_layers=1, n_heads=2, hidden_dim=16, vocab_size=30)
    assert position_capacity(distilbert) == 512
    assert position_capacity(XLNetConfig(d_model=16, n_head=2, n_layer=1, d_inner=16, vocab_size=30)) == 512


def test_asking_changes_nothing_and_takes_neither_memory_nor_random_numbers() -> None:
    """The word table alone would take 4 TB."""
    config = BertConfig(vocab_size=10**9, hidden_size=1_000, num_attention_heads=10, max_position_embeddings=77)
    before, state = config.to_dict(), torch.get_rng_state()
    assert position_capacity(config) == 77
    assert config.to_dict() == before
    assert torch.get_rng_state().equal(state)


def test_an_encoder_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    config = BertConfig(max_position_embeddings=78)
    assert position_capacity(config) == 78
    monkeypatch.setattr(AutoModel, "from_config", None)
    assert position_capacity(BertConfig(max_position_embeddings=78)) == 78

"""Weights sharded over two processes train as in one."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_training import without_dropout
from transformers import PreTrainedTokenizerBase

from hf_spanner import METHODS, SpanNERCollator, SpanNERPipeline

PROGRAM = Path(__file__).with_name("sharded_processes.py")


@pytest.mark.slow
def test_a_step_with_sharded_weights_is_that_of_one_process(
    random_tagger: Callable[..., SpanNERPipeline],
    whole_steps: Callable[[str], dict[str, Any]],
    tokenizer: PreTrainedTokenizerBase,
    rows: list[dict[str, Any]],
    run_python: Callable[..., str],
    tmp_path: Path,
) -> None:
    """FSDP2 shards each layer of the encoder and what is left; a step of four sentences is 1 x 4 and 2 x 2."""
    models = {method: without_dropout(random_tagger(method, **whole_steps(method)).model) for method in METHODS}
    for method, model in models.items():
        model.save_pretrained(tmp_path / method)
        collator = SpanNERCollator(tokenizer, model.config.label2id)
        torch.save([collator(rows[:2]), collator(rows[2:4])], tmp_path / f"{method}.batches")
    run_python("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", PROGRAM, tmp_path)
    for method, model in models.items():
        before = deepcopy(model.state_dict())
        model.training_seed = 3
        optimizer = torch.optim.SGD(model.train().parameters(), lr=0.1)
        batches = torch.load(tmp_path / f"{method}.batches")
        sum(model(**batch).loss / 2 for batch in batches).backward()
        optimizer.step()
        sharded = torch.load(tmp_path / f"{method}.sharded")
        assert sharded.keys() == before.keys()
        after = model.state_dict()
        assert max((after[name] - sharded[name]).abs().max().item() for name in after) < 1e-5, method
        assert max((after[name] - before[name]).abs().max().item() for name in after) > 1e-3, method

"""One plain step of every method with its weights sharded over two processes, on the CPU.

torchrun --nproc_per_node=2 sharded_processes.py FOLDER

For each method FOLDER holds a model and `<method>.batches`, a batch for each process.
"""

import sys
from pathlib import Path

import torch
from torch import distributed
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard
from transformers import AutoModel

from hf_spanner import METHODS


def main(folder: str) -> None:
    """Write FOLDER/<method>.sharded, the whole weights after the step."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    for method in METHODS:
        model = AutoModel.from_pretrained(Path(folder) / method).train()
        for module in list(model.modules()):
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
            if type(module).__name__ in model._no_split_modules:
                fully_shard(module)
        fully_shard(model)
        assert all(isinstance(weight, distributed.tensor.DTensor) for weight in model.parameters())
        model.training_seed = 3
        batch = torch.load(Path(folder) / f"{method}.batches")[rank]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(**batch).loss.backward()  # gradients are means over the processes
        optimizer.step()
        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        weights = get_model_state_dict(model, options=options)
        if rank == 0:
            torch.save(weights, Path(folder) / f"{method}.sharded")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])

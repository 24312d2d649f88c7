"""Short trainings of tiny models, for tests of what a training leaves behind."""

from pathlib import Path
from typing import Any

from torch import nn
from transformers import PreTrainedTokenizerBase

from hf_spanner import SpanNERModel, SpanNERTrainer
from hf_spanner.methods import trainer_of, training_arguments_of

Rows = list[dict[str, Any]]
QUIET = {"report_to": "none", "use_cpu": True, "disable_tqdm": True, "logging_strategy": "no"}


def without_dropout(model: SpanNERModel) -> SpanNERModel:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        elif isinstance(module, nn.LSTM):
            module.dropout = 0.0
    return model


def trained(
    model: SpanNERModel, tokenizer: PreTrainedTokenizerBase, rows: Rows, folder: Path, **arguments: Any
) -> SpanNERTrainer:
    """A trainer of the method after its steps, without evaluation."""
    name = model.config.model_type
    own = {given: arguments.pop(given, None) for given in ("resume", "callbacks", "compute_loss_func")}
    settings = {"save_strategy": "no", **QUIET, "warmup_steps": 0, "save_total_limit": None, **arguments}
    args = training_arguments_of(name)(
        output_dir=str(folder), eval_strategy="no", load_best_model_at_end=False, **settings
    )
    resume = own.pop("resume")
    trainer = trainer_of(name)(model=model, args=args, train_dataset=rows, processing_class=tokenizer, **own)
    trainer.train(resume_from_checkpoint=resume)
    return trainer

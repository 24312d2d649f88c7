"""Evaluate and train every method with a fixed number of sentences a step, as `accelerate launch` starts it.

python launched_processes.py FOLDER OUTPUT BATCH_SIZE      FOLDER holds rows.json and, for each method,
                                                           a model, a tokenizer and arguments
"""

import json
import sys
from pathlib import Path

import torch
from accelerate.utils import gather_object
from transformers import AutoModel, AutoTokenizer, set_seed

from hf_spanner import METHODS
from hf_spanner.methods import trainer_of, training_arguments_of


def main(folder: str, output: str, batch_size: str) -> None:
    """Write OUTPUT/<method>.pt, the weights after two plain steps, and OUTPUT/scores.json."""
    torch.set_num_threads(1)
    root, target = Path(folder), Path(output)
    target.mkdir(exist_ok=True)
    rows = json.loads((root / "rows.json").read_text(encoding="utf-8"))
    scores = {}
    for method in METHODS:
        set_seed(0)
        model = AutoModel.from_pretrained(root / method)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        args = training_arguments_of(method)(
            output_dir=str(target / method),
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
            max_steps=2,
            optim="sgd",
            learning_rate=1e-2,
            head_learning_rate=1e-2,
            max_grad_norm=0.0,
            lr_scheduler_type="constant",
            warmup_steps=0,
            per_device_train_batch_size=int(batch_size),
            per_device_eval_batch_size=1,
            train_sampling_strategy="sequential",
            eval_strategy="no",
            save_strategy="no",
            load_best_model_at_end=False,
            **json.loads((root / f"{method}.json").read_text(encoding="utf-8")),
        )
        tokenizer = AutoTokenizer.from_pretrained(root / method)
        trainer = trainer_of(method)(model=model, args=args, train_dataset=rows, processing_class=tokenizer)
        answers = trainer.predict(rows).predictions
        measured = trainer.evaluate(rows)
        trainer.train()
        if trainer.is_world_process_zero():
            torch.save(model.state_dict(), target / f"{method}.pt")
            kept = {name: measured[name] for name in ("eval_loss", "eval_f1", "eval_ece", "eval_num_predicted")}
            scores[method] = kept | {"world": args.world_size, "answers": answers}
    seen = rows_of_two_epochs(root, target)
    if trainer.is_world_process_zero():
        (target / "seen.json").write_text(json.dumps(seen), encoding="utf-8")
        (target / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
    trainer.end()


def rows_of_two_epochs(root: Path, target: Path) -> list[list[str]]:
    """First words of the rows that each process trains on, with dropout, so that their generators part ways."""
    method = "locate_and_label"
    words = [f"row{number}" for number in range(24)]
    rows = [{"tokens": [word, *["Oslo"] * (number % 5)], "entities": []} for number, word in enumerate(words)]
    seen: list[str] = []
    args = training_arguments_of(method)(
        output_dir=str(target / "seen"),
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        num_train_epochs=2,
        per_device_train_batch_size=2,
        eval_strategy="no",
        save_strategy="no",
        load_best_model_at_end=False,
    )
    trainer = trainer_of(method)(
        model=AutoModel.from_pretrained(root / method),
        args=args,
        train_dataset=rows,
        processing_class=AutoTokenizer.from_pretrained(root / method),
    )
    collate = trainer.data_collator

    def noted(features: list) -> dict:
        seen.extend(feature["tokens"][0] for feature in features)
        return collate(features)

    trainer.data_collator = noted
    torch.manual_seed(args.process_index)
    trainer.train()
    return gather_object([seen])


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Where DiffusionNER loses entities: the share of gold spans that is still there after each of its stages.

    python benchmarks/diffusion_losses.py --model outputs/gum_minilm --data data/gum/test.jsonl --seeds 1 2 3

Sampling is followed from the noise over each step to the answer. Then the denoiser is given the gold spans themselves
at the time of the last step, and at time 0: what it changes about them is its own mistake, not that of the search.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from quality import environment
from speed import padded_batches
from subject import selected_rows
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from hf_spanner import SpanNERModel
from hf_spanner.methods.diffusion_ner.process_diffusion_ner import step_times

BATCH_SIZE = 32
NONE = -1


def main() -> None:
    """Print a table over the seeds of the noise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="folder of a trained model of diffusion_ner")
    parser.add_argument("--data", required=True, help="file of rows, such as a test split in JSONL")
    parser.add_argument("--rows", type=int, help="take only the first rows")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="seeds of the noise")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    rows = selected_rows(arguments)
    model = AutoModel.from_pretrained(arguments.model).eval()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    counts: Counter[str] = Counter()
    for batch, gold in labelled_batches(model, tokenizer, rows):
        counts.update(given_gold(model, batch, gold, step_times(model.config.num_timesteps, arguments.steps)[-2]))
        for seed in arguments.seeds:
            counts.update(followed(model, batch, gold, {"num_steps": arguments.steps, "seed": seed}))
    draws = {"sampled": len(arguments.seeds), "given": 1}
    for name, count in counts.items():
        if name != "gold":
            print(f"{name:<58}{100 * count / counts['gold'] / draws[name.split(',')[0]]:>7.1f} %")
    print(", ".join(f"{name}: {value}" for name, value in {"data": f"{len(rows)} rows", **environment()}.items()))


def labelled_batches(model: SpanNERModel, tokenizer: Any, rows: Any) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
    """Padded batches of the rows, sorted by length, and their (B, G, 3) gold; a row must fit into one window."""
    rows = sorted(rows, key=lambda row: len(row["tokens"]))
    for first in range(0, len(rows), BATCH_SIZE):
        chosen = rows[first : first + BATCH_SIZE]
        batches = [padded_batches(model, tokenizer, [row["tokens"]], 1)[0] for row in chosen]
        yield stacked(batches), gold_spans(chosen, model.config.label2id)


def stacked(batches: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Batches of one sentence as one batch."""
    return {
        name: torch.nn.utils.rnn.pad_sequence([batch[name][0] for batch in batches], batch_first=True)
        for name in batches[0]
    }


def gold_spans(rows: Sequence[Mapping[str, Any]], label2id: Mapping[str, int]) -> Tensor:
    """(B, G, 3) long first word, last word and label, padding -1."""
    spans = [
        [(entity["start"], entity["end"] - 1, label2id[entity["label"]]) for entity in row["entities"]] for row in rows
    ]
    most = max(1, *map(len, spans))
    return torch.tensor([row_spans + [(NONE,) * 3] * (most - len(row_spans)) for row_spans in spans])


@torch.inference_mode()
def followed(
    model: SpanNERModel, batch: Mapping[str, Tensor], gold: Tensor, settings: Mapping[str, Any]
) -> dict[str, int]:
    """How many gold spans each stage of sampling still holds."""
    decoding = model.decoding(settings)
    output = model(**batch, decoding=decoding)
    is_gold = gold[..., 0] >= 0
    counts = {}
    for step, spans in enumerate(output.path.unbind(dim=1)):
        has_span = (spans[:, None] == gold[:, :, None, :2]).all(dim=-1)  # (B, G, K)
        counts[f"sampled, boundaries among the noisy spans, step {step}"] = int((has_span.any(-1) & is_gold).sum())
    types = output.logits.argmax(dim=-1)  # (B, K)
    is_typed = has_span & (types[:, None] == gold[..., 2:])
    counts["sampled, and their type is right"] = int((is_typed.any(-1) & is_gold).sum())
    probabilities = [scores.max(dim=-1).values for scores in model._probabilities(output)]
    is_kept = is_typed & (sum(probabilities) > decoding["phi"])[:, None]
    counts[f"sampled, and their probabilities pass phi = {decoding['phi']}"] = int((is_kept.any(-1) & is_gold).sum())
    answers = model.decode(output, decoding)
    gold_keys = [{(start, last + 1, label) for start, last, label in row.tolist() if start >= 0} for row in gold]
    answer_keys = [{span[:3] for span in spans} for spans in answers]
    counts["sampled, in the answer (recall)"] = sum(len(a & b) for a, b in zip(gold_keys, answer_keys, strict=True))
    counts["sampled, wrong spans in the answer, over gold"] = sum(
        len(b - a) for a, b in zip(gold_keys, answer_keys, strict=True)
    )
    return counts


@torch.inference_mode()
def given_gold(model: SpanNERModel, batch: Mapping[str, Tensor], gold: Tensor, last_time: int) -> dict[str, int]:
    """What the denoiser makes of the gold spans themselves."""
    words = model.encode(**batch).last_hidden_state
    sentence = model.denoiser.read(words, batch["word_mask"])
    is_gold = gold[..., 0] >= 0
    counts = {"gold": int(is_gold.sum())}
    for time in (last_time, 0):
        spans = gold[:, None, :, :2].clamp(min=0)
        vectors = model.denoiser(sentence, spans, torch.tensor([time]), is_gold[:, None].long())
        scores = model.denoiser.boundaries(sentence, vectors, spans)
        types = model.denoiser.type_logits(sentence, vectors, *scores).argmax(dim=-1)
        left, right = (side.argmax(dim=-1) for side in scores)
        hold = (left == gold[..., 0]) & (right == gold[..., 1]) & is_gold
        right_type = (types == gold[..., 2]) & is_gold
        counts[f"given, gold at time {time}: boundaries stay"] = int(hold.sum())
        counts[f"given, gold at time {time}: type is right"] = int(right_type.sum())
        counts[f"given, gold at time {time}: both"] = int((hold & right_type).sum())
    return counts


if __name__ == "__main__":
    main()

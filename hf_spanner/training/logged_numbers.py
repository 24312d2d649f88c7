"""The numbers that a training logs: parts of its loss, and scores of its evaluations."""

from collections.abc import Iterable, Mapping
from typing import Any

from transformers import TrainingArguments
from transformers.trainer_utils import IntervalStrategy

from hf_spanner.core.modeling_span_ner import TOTAL
from hf_spanner.metrics.span_ner.scoring import score_spans

LOGGED_SCORES = (
    "overall_f1",
    "overall_precision",
    "overall_recall",
    "overall_ece",
    "macro_f1",
    "boundary_f1",
    "num_gold",
    "num_predicted",
    "num_correct",
)


def logged_parts(means: Mapping[str, float]) -> dict[str, float]:
    """The parts of the loss to log, from their means: a ratio where there is a total, left out where the total is 0."""
    totals = {name.removeprefix(TOTAL): mean for name, mean in means.items() if name.startswith(TOTAL)}
    logged = {name: mean for name, mean in means.items() if not name.startswith(TOTAL) and totals.get(name) != 0}
    return {name: mean / totals.get(name, 1.0) for name, mean in logged.items()}


def span_metrics(predicted: list, gold: list) -> dict[str, float]:
    """Flat numbers for the log: strict, macro and boundary F1, ECE if it is defined, counts, and F1 of each label."""
    scores = score_spans(predicted, gold)
    flat = {name.removeprefix("overall_"): scores[name] for name in LOGGED_SCORES if scores[name] is not None}
    return flat | {f"f1_{label}": label_scores["f1"] for label, label_scores in scores["per_label"].items()}


def check_best_metric(args: TrainingArguments, eval_dataset: Any, labels: Iterable[str] | None) -> None:
    """Check before the first step that evaluations will give the metric that chooses the best model.

    Args:
        args: The arguments of the training; nothing is checked where they ask for no evaluation or no choice.
        eval_dataset: Rows, or a dict of them by name, whose metrics begin with that name.
        labels: The model's labels; None where other metrics than `span_metrics` are computed.

    Raises:
        ValueError: If they will not.
    """
    name = args.metric_for_best_model
    if name is None or args.eval_strategy == IntervalStrategy.NO:
        return
    bare = name.removeprefix("eval_")
    sets = [f"{rows}_" for rows in eval_dataset] if isinstance(eval_dataset, dict) else [""]
    ends = {bare.removeprefix(rows) for rows in sets if bare.startswith(rows)}
    scores = [name.removeprefix("overall_") for name in LOGGED_SCORES]
    if args.prediction_loss_only:
        allowed = ["loss"]  # and nothing is predicted
    else:
        allowed = [] if labels is None else ["loss", *scores, *(f"f1_{label}" for label in labels)]
    if not ends or (allowed and not ends & set(allowed)):
        parts = [", ".join(part) for part in (sets, allowed) if part and part != [""]]
        raise ValueError(f"metric_for_best_model must be one of {', and then one of '.join(parts)}, got {name!r}")

"""What a model loses by its export: both read the same rows."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hf_spanner.calibration.fitting import MIN_PREDICTIONS, fit_source, fitted_calibration, scored_predictions
from hf_spanner.core.pipeline_span_ner import SpanNERPipeline
from hf_spanner.core.spans import EntityLists
from hf_spanner.data.predicted import predicted_entities
from hf_spanner.metrics.span_ner.scoring import score_spans, score_text

Rows = Sequence[Mapping[str, Any]]


class Comparison(NamedTuple):
    """Scores of a model before and after its export.

    Args:
        num_rows: Rows that both have read.
        f1: Strict F1 in percent, before and after.
        ece: Expected calibration error, before and after; None without predictions.
        equal: Share of the rows whose entities are the same.
    """

    num_rows: int
    f1: tuple[float, float]
    ece: tuple[float | None, float | None]
    equal: float

    @property
    def loss(self) -> float:
        """Points of F1 that are lost."""
        return self.f1[0] - self.f1[1]

    def __str__(self) -> str:
        """A table in Markdown."""
        rows = [
            (name, f"{f1:.2f}", score_text(ece))
            for name, f1, ece in zip(("torch float32", "exported"), self.f1, self.ece, strict=True)
        ]
        lines = [f"| {' | '.join(cells)} |" for cells in [("model", "strict F1", "ECE"), ("---",) * 3, *rows]]
        return "\n".join([*lines, "", f"Equal entities in {self.equal:.2%} of {self.num_rows:,} rows."])


def compared(before: EntityLists, after: EntityLists, gold: EntityLists) -> Comparison:
    """Scores of the entities of rows that a model gives before and after its export."""
    scores = [score_spans(entities, gold) for entities in (before, after)]
    spans = [[{(e["start"], e["end"], e["label"]) for e in row} for row in entities] for entities in (before, after)]
    num_equal = sum(one == other for one, other in zip(*spans, strict=True))
    first, second = scores
    return Comparison(
        len(gold),
        (100 * first["overall_f1"], 100 * second["overall_f1"]),
        (first["overall_ece"], second["overall_ece"]),
        num_equal / max(1, len(gold)),
    )


def fitted_again(
    calibration: Mapping[str, Any], ner: SpanNERPipeline, rows: Rows, name: str, batch_size: int
) -> dict[str, Any] | None:
    """A calibration of the same kind, fitted on the scores that an exported model gives; promises are not made again.

    Args:
        calibration: The one of the model before its export.
        ner: The exported model.
        rows: Held-out rows.
        name: What stands for them in the configuration.
        batch_size: Windows run through the model at once.

    Returns:
        The new value of the configuration's field; None if there are too few predictions.
    """
    config = ner.model.config
    config.calibration, before = None, config.calibration
    predicted = list(predicted_entities(ner, rows, batch_size, {"threshold": 0.0}))
    config.calibration = before
    predictions = scored_predictions(predicted, [list(row["entities"]) for row in rows])
    if len(predictions.scores) < MIN_PREDICTIONS:
        return None
    return fitted_calibration(
        calibration["kind"],
        predictions,
        fitted_on=fit_source(name, rows),
        per_label=bool(calibration["per_label"]),
    )

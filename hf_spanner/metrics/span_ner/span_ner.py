"""The `evaluate` metric for labelled spans; loads with `evaluate.load("<this folder>")`, without the package."""

from collections.abc import Sequence
from typing import Any

import datasets
import evaluate

from .curves import precision_recall_curve
from .matching import SpanLists, matched_spans
from .reliability import brier_split, calibration_error
from .resampling import paired_bootstrap
from .scoring import score_spans

# The loader of `evaluate` copies only the files that this one imports from, so it names every file of the folder.
__all__ = [
    "SpanNERMetric",
    "brier_split",
    "calibration_error",
    "paired_bootstrap",
    "precision_recall_curve",
    "score_spans",
]

_DESCRIPTION = """\
Scores labelled spans (flat, nested or overlapping): strict precision, recall and F1 (micro, macro, per label),
boundary-only precision, recall and F1; calibration errors with reliability bins, Brier score with its parts, average
precision; on request bootstrap intervals over documents.
"""

_INPUTS_DESCRIPTION = """\
Args:
    predictions: one list per text of {"start": int, "end": int, "label": str, "score": float}; half-open offsets in
        any one unit, scores in [0, 1].
    references: one list per text of {"start": int, "end": int, "label": str}, in the same order of texts.
    num_bins: number of calibration bins (low, high], default 10.
    zero_division: value of an undefined ratio, default 0.0.
    documents: for intervals, the document of each text, default each text its own.
    num_resamples: number of bootstrap resamples of the documents, default 0: no intervals.
    confidence_level: of the intervals, default 0.95.
    seed: of the resamples, default 0.

Returns:
    dict with overall_precision, overall_recall, overall_f1, overall_ece, overall_mce, overall_ece_mass, overall_brier,
    brier_split, average_precision, macro_precision, macro_recall, macro_f1, boundary_precision, boundary_recall,
    boundary_f1, num_gold, num_predicted, num_correct, duplicates_removed, reliability, per_label and, if there are
    resamples, intervals. The README of this folder defines every key.

Example:
    >>> metric = evaluate.load("hf_spanner/metrics/span_ner")
    >>> gold = [[{"start": 0, "end": 2, "label": "PER"}]]
    >>> found = [[{"start": 0, "end": 2, "label": "PER", "score": 0.9}]]
    >>> metric.compute(predictions=found, references=gold)["overall_f1"]
    1.0
"""

_CITATION = """\
@inproceedings{zhu-li-2022-boundary,
    title = "Boundary Smoothing for Named Entity Recognition",
    author = "Zhu, Enwei and Li, Jinpeng",
    booktitle = "Proceedings of the 60th Annual Meeting of the Association for Computational Linguistics",
    year = "2022",
}
@inproceedings{guo-etal-2017-calibration,
    title = "On Calibration of Modern Neural Networks",
    author = "Guo, Chuan and Pleiss, Geoff and Sun, Yu and Weinberger, Kilian Q.",
    booktitle = "Proceedings of the 34th International Conference on Machine Learning",
    year = "2017",
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _INPUTS_DESCRIPTION)
class SpanNERMetric(evaluate.Metric):
    """Strict and boundary-only span F1 with the calibration of the scores."""

    def _info(self) -> evaluate.MetricInfo:
        """Names the inputs and their types, as `evaluate` asks for them."""
        span = {"start": datasets.Value("int64"), "end": datasets.Value("int64"), "label": datasets.Value("string")}
        scored_span = {**span, "score": datasets.Value("float64")}
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS_DESCRIPTION,
            features=datasets.Features({"predictions": datasets.List(scored_span), "references": datasets.List(span)}),
        )

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Add texts; what is wrong with them is said in words before they are encoded.

        Raises:
            ValueError: As in `score_spans`.
        """
        matched_spans(predictions, references)
        super().add_batch(predictions=predictions, references=references, **kwargs)

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        """Add the spans of one text; see `add_batch`."""
        matched_spans([prediction], [reference])
        super().add(prediction=prediction, reference=reference, **kwargs)

    def _compute(
        self,
        predictions: SpanLists,
        references: SpanLists,
        num_bins: int = 10,
        zero_division: float = 0.0,
        documents: Sequence[str | None] | None = None,
        num_resamples: int = 0,
        confidence_level: float = 0.95,
        seed: int = 0,
    ) -> dict[str, Any]:
        """Hand everything that was added to `score_spans` and return its dict unchanged."""
        return score_spans(
            predictions,
            references,
            num_bins=num_bins,
            zero_division=zero_division,
            documents=documents,
            num_resamples=num_resamples,
            confidence_level=confidence_level,
            seed=seed,
        )

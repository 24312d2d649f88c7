"""Weights for held-out predictions, so that they stand for texts whose entities are new more often, or less often.

Entities that training named are right more often than new ones of the same score. Texts of another time or place have
other shares of them, which can be counted without annotations; the map of a fit that is weighted so allows for it
(importance weighting, Shimodaira 2000, over a covariate of three values).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

KINDS = ("new", "other label", "same label")  # of a predicted surface, by what the training rows name so
Spans = Sequence[Sequence[Mapping[str, Any]]]


def known_surfaces(training_rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, ...], set[str]]:
    """The labels of each surface that is an entity of the training rows; words with their letter case."""
    known = defaultdict(set)
    for row in training_rows:
        for entity in row["entities"]:
            known[tuple(row["tokens"][entity["start"] : entity["end"]])].add(entity["label"])
    return dict(known)


def surface_kinds(predicted: Spans, texts: Sequence[Sequence[str]], training_rows: Iterable[Mapping]) -> np.ndarray:
    """For each prediction whether its words are an entity of the training rows, with its label or only with others.

    Words are compared one by one with their letter case, as `analysis.groups` does for seen and unseen surfaces.

    Args:
        predicted: For each row its entities with start, end and label.
        texts: The words of each row.
        training_rows: Rows with `tokens` and `entities`.

    Returns:
        (n,) int, places in `KINDS`, in the order of the rows.
    """
    known, kinds = known_surfaces(training_rows), []
    for words, entities in zip(texts, predicted, strict=True):
        for entity in entities:
            labels = known.get(tuple(words[entity["start"] : entity["end"]]), ())
            kinds.append(2 if entity["label"] in labels else int(bool(labels)))
    return np.array(kinds, dtype=int)


def shift_weights(held_out: np.ndarray, coming: np.ndarray) -> np.ndarray:
    """How much each held-out prediction counts, so that their kinds have the shares of predictions on texts to come.

    The share of a kind is (k + 1/2) / (n + 3/2), so that none is 0; a weight is the share among those to come over that
    among the held-out ones. Worked example: of 10 held-out predictions 2 are new and 8 known with their label, of 10 to
    come 5 and 5; a new one weighs (5.5 / 11.5) / (2.5 / 11.5) = 2.2, a known one 5.5 / 8.5 = .647.

    Args:
        held_out: (n,) kinds of the predictions of the fit.
        coming: (m,) kinds of the predictions on texts like those to come.

    Returns:
        (n,) positive weights; their mean is near 1.
    """
    shares = [(np.bincount(kinds, minlength=len(KINDS)) + 0.5) / (len(kinds) + 1.5) for kinds in (coming, held_out)]
    return (shares[0] / shares[1])[held_out]

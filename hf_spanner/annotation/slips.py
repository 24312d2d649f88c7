"""Slips: errors of the hand. Planted in an annotation, they teach a review how models answer where there is one."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from hf_spanner.annotation.noise import RATES
from hf_spanner.core.calibration import SMALLEST_SCORE
from hf_spanner.core.spans import EntityLists
from hf_spanner.data.schema import sorted_entities
from hf_spanner.metrics.span_ner.matching import SpanKey

DRAWS = (1, 2, 3)  # seeds of the slips that are planted
MIN_EXAMPLES = 20  # of slips and of other suspects of a form; fewer teach nothing
PLANTED = 0.05  # share of the entities
LOWEST_SCORE = 1e-3  # of spans that a model does not give
PENALTY = 0.01  # of squared weights of features of unit deviation, for each model

Rows = list[dict[str, Any]]
Slip = tuple[SpanKey | None, SpanKey]  # the wrong entity, None where it was left out, and the true one
Place = tuple[int, tuple[int, int, str] | None, tuple[int, int, str] | None]  # row, annotated, suggested


def planted(rows: Sequence[Mapping[str, Any]], rate: float, seed: int) -> tuple[Rows, list[Slip]]:
    """Rows with slips, and each of them.

    A random share of the entities is changed: in turn another label, a start or an end moved by one word, and nothing
    left. Where each change would give an entity that is there, it is left out too.

    Args:
        rows: Rows with `tokens` and `entities`.
        rate: Share of the entities.
        seed: At least 0.

    Returns:
        The rows, and (wrong entity or None, true entity) of each slip.
    """
    generator = random.Random(seed)
    labels = sorted({entity["label"] for row in rows for entity in row["entities"]})
    entities = [{(entity["start"], entity["end"], entity["label"]) for entity in row["entities"]} for row in rows]
    places = [(number, key) for number, members in enumerate(entities) for key in sorted(members)]
    slips: list[Slip] = []
    for turn, (number, (start, end, label)) in enumerate(generator.sample(places, round(rate * len(places)))):
        present = entities[number]
        present.discard((start, end, label))
        options = [(start, end, other) for other in labels if other != label]
        if turn % 3 == 1:
            moved = [(start - 1, end), (start + 1, end), (start, end - 1), (start, end + 1)]
            options = [(*s, label) for s in moved if 0 <= s[0] < s[1] <= len(rows[number]["tokens"])] or options
        options = [option for option in options if option not in present]
        wrong = generator.choice(options) if options and turn % 3 < 2 else None
        present |= set() if wrong is None else {wrong}
        slips.append((None if wrong is None else (number, *wrong), (number, start, end, label)))
    changed = [{**row, "entities": sorted_entities(members)} for row, members in zip(rows, entities, strict=True)]
    return changed, slips


def planted_places(places: Sequence[Place], slips: Sequence[Slip]) -> list[int | None]:
    """For each place of a review the number of the slip that it names, by the wrong entity or by the true one."""
    wrong_by: dict[SpanKey | None, int] = {
        wrong: number for number, (wrong, _) in enumerate(slips) if wrong is not None
    }
    true_by: dict[SpanKey | None, int] = {true: number for number, (_, true) in enumerate(slips)}
    return [
        wrong_by.get((row, *annotated) if annotated else None, true_by.get((row, *suggested) if suggested else None))
        for row, annotated, suggested in places
    ]


class Slips(NamedTuple):
    """What planted slips teach about the places of a review.

    Attributes:
        rate: r, the share of entities that are wrong; None where there are too few examples.
        probabilities: (n,) of a slip at each place, nan where there are too few examples of its form.
    """

    rate: float | None
    probabilities: np.ndarray


def learned_slips(
    rows: Sequence[Mapping[str, Any]],
    predictions: Sequence[EntityLists],
    places: Sequence[Place],
    places_of: Callable[[Rows], Sequence[Place]],
    rate: float | None = None,
) -> Slips:
    """Probability of a slip at each place of a review, learned from slips that are planted in the rows.

    For each form of a suspect (another label, another boundary, missed, no entity) a logistic regression tells planted
    slips from all other suspects by what each model says of the suggestion and of what is annotated. The others hold
    real slips, which look like planted ones. So with a of the entities planted and r wrong, the odds o of a planted one
    are a / r where a suspect is surely a slip, and elsewhere a slip has the probability o r / a: Elkan and Noto (2008),
    with planted slips as the labelled examples. The surest suspects, a third as many as were planted, are taken for
    slips: r = a (1 / f - 1), with f the share of planted ones among them.

    Args:
        rows: Rows with `tokens` and `entities`.
        predictions: For each model the entities of each row with scores.
        places: (n,) of the suspects.
        places_of: The suspects of other rows.
        rate: r, if it is known.
    """
    scores = [[_scores(entities) for entities in entity_lists] for entity_lists in predictions]
    examples: dict[str, tuple[list[np.ndarray], list[bool]]] = {}
    num_planted = 0
    for seed in DRAWS:
        changed, slips = planted(rows, PLANTED, seed)
        found = places_of(changed)
        num_planted += len(slips)
        for place, slip in zip(found, planted_places(found, slips), strict=True):
            features, hits = examples.setdefault(_form(place), ([], []))
            features.append(_features(place, scores))
            hits.append(slip is not None)
    tables = {form: (np.array(features), np.array(hits)) for form, (features, hits) in examples.items()}
    maps = {
        form: log_odds
        for form, table in tables.items()
        if (log_odds := _fitted(*table, PENALTY * len(scores))) is not None
    }
    probabilities = np.full(len(places), np.nan)
    if not maps:
        return Slips(rate, probabilities)
    if rate is None:
        log_odds = np.concatenate([log_odds_of(tables[form][0]) for form, log_odds_of in maps.items()])
        is_planted = np.concatenate([tables[form][1] for form in maps])
        surest = np.argsort(-log_odds, kind="stable")[: max(1, num_planted // 3)]
        rate = float(np.clip(PLANTED * (1.0 / max(is_planted[surest].mean(), PLANTED) - 1.0), *RATES))
    forms = np.array([_form(place) for place in places])
    for form, log_odds_of in maps.items():
        chosen = (forms == form).nonzero()[0]
        if len(chosen):
            odds = np.exp(log_odds_of(np.array([_features(places[number], scores) for number in chosen])))
            probabilities[chosen] = np.minimum(odds * rate / PLANTED, 1.0 - SMALLEST_SCORE)
    return Slips(rate, probabilities)


def _scores(entities: Sequence[Mapping[str, Any]]) -> dict[tuple[int, int], dict[str, float]]:
    """What a model says of a row: the score of each label of each span."""
    scores: dict[tuple[int, int], dict[str, float]] = {}
    for entity in entities:
        scores.setdefault((entity["start"], entity["end"]), {})[entity["label"]] = entity["score"]
    return scores


def _form(place: Place) -> str:
    """What a suspect says: `none`, `missed`, another `label` or another `boundary`."""
    _, annotated, suggested = place
    if annotated is None or suggested is None:
        return "none" if suggested is None else "missed"
    return "label" if annotated[:2] == suggested[:2] else "boundary"


def _features(place: Place, scores: Sequence[Sequence[Mapping[tuple[int, int], Mapping[str, float]]]]) -> np.ndarray:
    """(2 or 4 for each model,) log-odds of the score of suggestion and annotation, each of its label and of all."""
    values = []
    for model_scores in scores:
        for start, end, label in filter(None, place[1:]):
            of_span = model_scores[place[0]].get((start, end), {})
            values += [of_span.get(label, 0.0), min(1.0, sum(of_span.values()))]
    return logit(np.clip(values, LOWEST_SCORE, 1.0 - LOWEST_SCORE))


def _fitted(features: np.ndarray, hits: np.ndarray, penalty: float) -> Callable[[np.ndarray], np.ndarray] | None:
    """Log-odds by a penalised logistic regression of (n, f) features on (n,) bool; None for too few examples."""
    if min(hits.sum(), (~hits).sum()) < MIN_EXAMPLES:
        return None
    center, scale = features.mean(axis=0), features.std(axis=0) + LOWEST_SCORE
    inputs = np.column_stack([np.ones(len(features)), (features - center) / scale])
    penalties = np.array([0.0] + features.shape[1] * [penalty])

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        sums = inputs @ weights
        value = np.mean(np.logaddexp(0.0, sums) - hits * sums) + penalties @ weights**2 / 2
        return float(value), inputs.T @ (expit(sums) - hits) / len(hits) + penalties * weights

    weights = minimize(loss, np.zeros(inputs.shape[1]), jac=True, method="L-BFGS-B").x
    return lambda rows: weights[0] + (rows - center) / scale @ weights[1:]

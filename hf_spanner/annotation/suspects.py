"""Annotations that are probably wrong, each with the probability of it, from the scores of models."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hf_spanner.analysis.errors import span_errors
from hf_spanner.annotation.noise import (
    USUAL_RATE,
    LabelNoise,
    fitted_noise,
    fitted_rate,
    wrong_of_annotated,
)
from hf_spanner.annotation.slips import Place, learned_slips
from hf_spanner.annotation.surfaces import Occurrence, occurrences
from hf_spanner.core.calibration import SMALLEST_SCORE
from hf_spanner.core.overlap import resolve_overlaps
from hf_spanner.core.spans import EntityLists, Span, named_span
from hf_spanner.metrics.span_ner.matching import SpanKey

KINDS = {
    "missed_entity": "an entity is missing",
    "wrong_label": "wrong label",
    "wrong_boundary": "wrong boundary",
    "wrong_boundary_and_label": "wrong boundary and label",
    "no_entity": "is no entity",
    "inconsistent": "annotated otherwise elsewhere",
}
ERROR_KINDS = {  # kinds of `analysis.errors`, where suggestions stand for predictions and the annotation for gold
    "wrong_label": "wrong_label",
    "wrong_left": "wrong_boundary",
    "wrong_right": "wrong_boundary",
    "wrong_both": "wrong_boundary",
    "wrong_boundary_and_label": "wrong_boundary_and_label",
    "invented": "missed_entity",
}

SLIP_WEIGHT = 0.75  # of the probability of a slip, in the geometric mean with that by scores
SUGGESTED = 0.3  # with alternatives among the predictions, those of lower scores are no suggestions


class Suspect(NamedTuple):
    """An annotation that may be wrong.

    Attributes:
        row: Number of the row.
        kind: A key of `KINDS`.
        probability: That the annotation is wrong here.
        annotated: The (start, end, label) that is annotated; None for nothing.
        suggested: What should stand there; None for nothing.
        score: Mean score of the models for the suggestion; without one, for what is annotated.
        elsewhere: How the surface is annotated elsewhere, where that is another way.
    """

    row: int
    kind: str
    probability: float
    annotated: tuple[int, int, str] | None
    suggested: tuple[int, int, str] | None
    score: float
    elsewhere: Occurrence | None = None

    @property
    def place(self) -> Place:
        """Row, annotated and suggested entity."""
        return self.row, self.annotated, self.suggested


class Review(NamedTuple):
    """What a review found.

    Attributes:
        suspects: The most probable first; ties by row and place.
        noise: The noise of the annotation that the models see.
    """

    suspects: list[Suspect]
    noise: LabelNoise


class _Evidence(NamedTuple):
    """What is known of all rows: scores by span, the noise, and the rates that follow from them."""

    scores: dict[SpanKey, float]
    gold: set[SpanKey]
    noise: LabelNoise
    unseen: float
    floor: float | None

    def wrong(self, score: float) -> float:
        """Probability that the annotation is wrong which lacks a suggestion of this score."""
        return float(self.noise.wrong_probability([score])[0])

    def span_scores(self) -> dict[tuple[int, int, int], float]:
        """The score of each span for being an entity of any label that is not annotated."""
        sums: dict[tuple[int, int, int], float] = defaultdict(float)
        for key, score in self.scores.items():
            if key not in self.gold:
                sums[key[:3]] += score
        return {span: min(total, 1.0) for span, total in sums.items()}


def mean_predictions(predictions: Sequence[EntityLists]) -> EntityLists:
    """The predictions of several models as those of one: each span with the mean of its scores, 0 where it is missing.

    Args:
        predictions: For each model the entities of each row with scores, overlaps resolved.

    Returns:
        For each row every span that a model gives, by start, end and label; overlaps are not resolved.

    Raises:
        ValueError: If there is no model, or they saw different numbers of rows.
    """
    if len({len(rows) for rows in predictions}) != 1:
        raise ValueError(f"predictions must be of the same rows, got {[len(rows) for rows in predictions]} rows")
    means = []
    for answers in zip(*predictions, strict=True):
        sums: dict[tuple[int, int, str], float] = defaultdict(float)
        for answer in answers:
            for entity in answer:
                sums[entity["start"], entity["end"], entity["label"]] += entity["score"]
        means.append(
            [
                {"start": start, "end": end, "label": label, "score": total / len(predictions)}
                for (start, end, label), total in sorted(sums.items())
            ]
        )
    return means


def reviewed(
    rows: Sequence[Mapping[str, Any]],
    predictions: Sequence[EntityLists],
    *,
    policy: str,
    multi_label: bool = False,
    rate: float | None = None,
    floor: float | None = None,
) -> Review:
    """Every annotation that models, or the rest of the corpus, speak against.

    1. The scores of the models are averaged, and `fitted_noise` is fitted on all suggestions and the annotation.
    2. Overlaps of suggestions are resolved by mean score. Each that is left and not annotated is a suspect of
       probability r q / (1 - (1 - r) q) at its score. If it is paired with an annotated entity that no model gives
       (`analysis.errors.span_errors`), the kind is a wrong label or boundary, else a missed entity, for which the
       scores of all labels of the span are added up: whichever is right, one is missing.
    3. Each annotated entity that is not suggested and in no pair is a suspect of kind `no_entity`, of probability
       e / (e + (1 - e) F(s)): F(s) is the share of annotated entities whose mean score is at most its own, s, and e is
       the expected number of missed entities over the number of annotated ones, as if people added as many as they
       forget. It is Bayes' rule with "the models give it at most s", which is sure for what is no entity.
       Where predictions hold alternatives down to a floor, the models say what they think of each annotated entity.
       Then its probability, here and in the pairs of step 2, is that of `noise.wrong_of_annotated` by its own q, for r
       times the annotated entities. Only spans of a score of .3 or more are suggestions then.
    4. Each occurrence of a surface that is annotated otherwise elsewhere is a suspect of kind `inconsistent`: the share
       of its usual way is a score, with a map of its own and the same r. Models have a say: the probability is
       multiplied by 1 - q of what is annotated; where nothing is annotated, by the score of the suggestion or, if that
       is larger, the share of annotated entities that no model gives. A suspect of 2 with the same suggestion
       is the same one, with the larger probability.
    5. Slips of the hand look otherwise than hard cases: a random label has nearly no score, where a label that models
       find hard has some. `slips.learned_slips` plants some in the rows and learns how the scores of all models look
       there, and with that r. The probability is p^(1/4) t^(3/4) of that of steps 2 to 4, p, and that of a slip, t. Too
       few entities teach nothing: then it stays p, and r is that of `noise.fitted_rate`.

    Args:
        rows: Rows with `tokens` and `entities`, which the models have not seen.
        predictions: For each model the entities of each row, with scores in [0, 1], overlaps resolved, no threshold.
        policy: `flat`, `nested` or `any`: how suggestions may overlap.
        multi_label: Whether a span may have several labels.
        rate: The rate r if it is known.
        floor: Predictions hold every span of at least this score, whether it is likelier than none or not, and several
            labels of a span; None: only what each model finds.

    Returns:
        The suspects and the noise.

    Raises:
        ValueError: As `mean_predictions` and `fitted_noise`; if rows and predictions differ in number.
    """
    means = mean_predictions(predictions)
    if len(means) != len(rows):
        raise ValueError(f"predictions must be of {len(rows)} rows, got {len(means)}")
    scores = {
        (number, entity["start"], entity["end"], entity["label"]): entity["score"]
        for number, entities in enumerate(means)
        for entity in entities
    }
    lowest = 0.0 if floor is None else SUGGESTED
    found = [[entity for entity in entities if entity["score"] >= lowest] for entities in means]
    suggestions = _keys([_resolved(entities, policy, multi_label) for entities in found])

    def by_scores(given: Sequence[Mapping[str, Any]], given_rate: float | None) -> Review:
        return _by_scores(given, scores, suggestions, given_rate, floor)

    def places_of(changed: Sequence[Mapping[str, Any]]) -> list[Place]:
        return [suspect.place for suspect in by_scores(changed, USUAL_RATE).suspects]

    suspects = by_scores(rows, USUAL_RATE).suspects
    slips = learned_slips(rows, predictions, [suspect.place for suspect in suspects], places_of, rate)
    review = by_scores(rows, slips.rate)
    of_place = dict(zip((suspect.place for suspect in suspects), slips.probabilities.tolist(), strict=True))
    mixed = [
        suspect
        if np.isnan(slip := of_place[suspect.place])
        else suspect._replace(probability=suspect.probability ** (1 - SLIP_WEIGHT) * slip**SLIP_WEIGHT)
        for suspect in review.suspects
    ]
    return Review(sorted(mixed, key=_order), review.noise)


def _by_scores(
    rows: Sequence[Mapping[str, Any]],
    scores: dict[SpanKey, float],
    suggestions: set[SpanKey],
    rate: float | None,
    floor: float | None,
) -> Review:
    """Steps 1 to 4 of `reviewed`, from all mean scores and the suggestions that are left."""
    gold = _keys([row["entities"] for row in rows])
    lowest = 0.0 if floor is None else SUGGESTED
    values, annotated = np.array(list(scores.values())), np.array([key in gold for key in scores], dtype=bool)
    if rate is None:
        rate = fitted_rate(values[values >= lowest], annotated[values >= lowest])
    noise = fitted_noise(values, annotated, rate=rate)
    unseen = sum(scores.get(key, 0.0) <= lowest for key in gold) / len(gold) if gold else 0.0
    evidence = _Evidence(scores, gold, noise, unseen, floor)
    suspects = _with_inconsistent(evidence, _disagreements(evidence, suggestions), occurrences(rows))
    return Review(sorted(suspects, key=_order), noise)


def _order(suspect: Suspect) -> tuple[Any, ...]:
    """The most probable first."""
    return -suspect.probability, suspect.row, _place(suspect), suspect.kind


def _keys(entity_lists: Sequence[Sequence[Mapping[str, Any]]]) -> set[SpanKey]:
    """Spans of rows as (row, start, end, label)."""
    return {
        (number, entity["start"], entity["end"], entity["label"])
        for number, entities in enumerate(entity_lists)
        for entity in entities
    }


def _resolved(entities: Sequence[Mapping[str, Any]], policy: str, multi_label: bool) -> list[dict[str, Any]]:
    """The suggestions of a row that stay when overlaps are resolved."""
    names = dict(enumerate(sorted({entity["label"] for entity in entities})))
    numbers = {name: number for number, name in names.items()}
    spans = [Span(entity["start"], entity["end"], numbers[entity["label"]], entity["score"]) for entity in entities]
    kept = resolve_overlaps(spans, policy=policy, id2label=names, multi_label=multi_label)
    return [named_span(span, names) for span in kept]


def _disagreements(evidence: _Evidence, suggestions: set[SpanKey]) -> list[Suspect]:
    """Suspects of steps 2 and 3."""
    suspects, alone, any_label = [], [], evidence.span_scores()
    for error in span_errors(suggestions, evidence.gold):
        if error.predicted is None:
            assert error.gold is not None
            alone.append(error.gold)
            continue
        row, suggested = error.predicted[0], error.predicted[1:]
        annotated = None if error.gold is None else error.gold[1:]
        score = evidence.scores[error.predicted]
        probability = evidence.wrong(any_label[error.predicted[:3]] if annotated is None else score)
        suspects.append(Suspect(row, ERROR_KINDS[error.kind], probability, annotated, suggested, score))
    missed = sum(suspect.probability for suspect in suspects if suspect.kind == "missed_entity")
    if evidence.floor is None:
        return suspects + _unsupported(evidence, alone, missed)
    wrong = _wrong_by_own_score(evidence)
    known = [
        suspect if suspect.annotated is None else suspect._replace(probability=wrong[suspect.row, *suspect.annotated])
        for suspect in suspects
    ]
    supports = evidence.scores
    return known + [
        Suspect(key[0], "no_entity", wrong[key], key[1:], None, supports.get(key, evidence.floor)) for key in alone
    ]


def _unsupported(evidence: _Evidence, alone: Sequence[SpanKey], missed: float) -> list[Suspect]:
    """Suspects of step 3 where predictions hold no alternatives."""
    suspects = []
    added = missed / len(evidence.gold) if evidence.gold else 0.0
    supports = np.sort([evidence.scores.get(key, 0.0) for key in evidence.gold])
    for key in alone:
        support = evidence.scores.get(key, 0.0)
        share = float(np.searchsorted(supports, support, side="right")) / len(supports)
        probability = added / (added + (1.0 - added) * share) if added < 1.0 else 1.0
        suspects.append(Suspect(key[0], "no_entity", probability, key[1:], None, support))
    return suspects


def _wrong_by_own_score(evidence: _Evidence) -> dict[SpanKey, float]:
    """Probability that each annotated entity is wrong, where predictions hold alternatives."""
    keys = sorted(evidence.gold)
    if not keys:
        return {}
    assert evidence.floor is not None
    supports = [max(evidence.scores.get(key, 0.0), evidence.floor) for key in keys]
    right = np.clip(evidence.noise.true_probability(supports), SMALLEST_SCORE, 1.0 - SMALLEST_SCORE)
    return dict(zip(keys, wrong_of_annotated(right, evidence.noise.rate * len(keys)).tolist(), strict=True))


def _with_inconsistent(evidence: _Evidence, suspects: list[Suspect], places: Sequence[Occurrence]) -> list[Suspect]:
    """The suspects with those of step 4 among them."""
    shares = [place.share for place in places]
    noise = fitted_noise(shares, [place.label == place.usual for place in places], rate=evidence.noise.rate)
    known = {(suspect.row, suspect.annotated, suspect.suggested): suspect for suspect in suspects}
    for place, wrong in zip(places, noise.wrong_probability(shares).tolist(), strict=True):
        span = (place.start, place.end)
        if place.label == place.usual or (place.row, *span, place.usual) in evidence.gold:
            continue
        annotated = None if place.label is None else (*span, place.label)
        suggested = None if place.usual is None else (*span, place.usual)
        score = 0.0 if suggested is None else evidence.scores.get((place.row, *suggested), 0.0)
        if annotated is None:
            doubt = max(score, evidence.unseen)
        else:
            support = evidence.scores.get((place.row, *annotated))
            doubt = 1.0 if support is None else 1.0 - float(evidence.noise.true_probability([support])[0])
            score = score if suggested is not None or support is None else support
        key = (place.row, annotated, suggested)
        new = Suspect(place.row, "inconsistent", wrong * doubt, annotated, suggested, score, place)
        old = known.get(key, new)
        known[key] = old._replace(probability=max(old.probability, new.probability), elsewhere=place)
    return list(known.values())


def _place(suspect: Suspect) -> tuple[int, int, str]:
    """Where a suspect stands, for an order."""
    span = suspect.annotated if suspect.suggested is None else suspect.suggested
    assert span is not None
    return span

"""Which texts to label next: those where a model expects the most errors for the words that have to be read."""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, NamedTuple

from hf_spanner.annotation.folds import rows_by_document
from hf_spanner.core.spans import EntityLists
from hf_spanner.data.schema import span_key

READING = 10  # words that the opening of one more sentence costs beside its own
DECAY = 0.5  # what the same surface or word is worth after it was chosen once more
Doubts = list[tuple[Any, float]]  # a surface with its label, or a word, and the errors that are expected there


class Choice(NamedTuple):
    """A chosen unit.

    Attributes:
        rows: Numbers of its rows.
        errors: Expected errors that are new beside the units chosen before it.
        cost: Its words, and 10 more for each row.
    """

    rows: tuple[int, ...]
    errors: float
    cost: int


class _Unit(NamedTuple):
    """A unit, with the doubts in each of its sentences as long as none was chosen."""

    rows: tuple[int, ...]
    cost: int
    sentences: list[Doubts]


def selected_units(
    rows: Sequence[Mapping[str, Any]],
    predictions: EntityLists,
    number: int,
    *,
    alternatives: EntityLists | None = None,
    whole_documents: bool = False,
    labelled: Sequence[Mapping[str, Any]] = (),
) -> list[Choice]:
    """The units to label, the most valuable first.

    A predicted span of calibrated score p is wrong with probability 1 - p, and a span that is not predicted is missed
    with its probability p. Where alternatives are not known, as many errors are expected that leave no span, spread
    evenly: sum (1 - p) / words for each word of all rows. An error counts half each time that the same surface with the
    same label, or the same word, was chosen before, so that choices differ. One more error in a sentence is worth less
    than the first, so that long and crowded sentences do not come before all others:

        gain = sum over sentences sqrt(sum over their doubts d 2^-c)

    where c counts the chosen units that hold the surface or word. The unit of the highest gain / cost comes next. Gains
    only fall as more is chosen, so a unit is valued anew only when it heads the queue, as in lazy greedy choice
    (Minoux 1978).

    Args:
        rows: Rows with `tokens` and, for whole documents, `document`; their entities play no part.
        predictions: Entities of each row, with calibrated scores.
        number: How many units; all if there are fewer.
        alternatives: All spans of each row with their probabilities, as `alternatives.scored_spans` gives them.
        whole_documents: Choose documents, not sentences; a row that names none is one of its own.
        labelled: Rows that were labelled before; their entities and words are worth less from the start.

    Returns:
        Choices in their order; ties go to the earlier unit. Units without words are left out.

    Raises:
        ValueError: If `number` is below 1, or predictions or alternatives are of other rows.
    """
    if number < 1:
        raise ValueError(f"number must be at least 1, got {number}")
    for name, answers in (("predictions", predictions), ("alternatives", alternatives)):
        if answers is not None and len(answers) != len(rows):
            raise ValueError(f"{name} must be of {len(rows)} rows, got {len(answers)}")
    units = _units(rows, predictions, alternatives, whole_documents)
    chosen: Counter[Any] = Counter(name for row in labelled for name in _names(row))
    queue = [(-_value(unit, chosen)[0] / unit.cost, place, 0) for place, unit in enumerate(units)]
    heapq.heapify(queue)
    choices: list[Choice] = []
    while queue and len(choices) < number:
        _, place, valued_at = heapq.heappop(queue)
        unit = units[place]
        gain, errors = _value(unit, chosen)
        if valued_at < len(choices):
            heapq.heappush(queue, (-gain / unit.cost, place, len(choices)))
            continue
        choices.append(Choice(unit.rows, errors, unit.cost))
        chosen.update({name for doubts in unit.sentences for name, _ in doubts})
    return choices


def _units(
    rows: Sequence[Mapping[str, Any]], predictions: EntityLists, alternatives: EntityLists | None, whole_documents: bool
) -> list[_Unit]:
    """The units that have words, in the order of their first rows."""
    num_words = sum(len(row["tokens"]) for row in rows)
    missed = sum(1.0 - entity["score"] for entities in predictions for entity in entities) / max(1, num_words)
    sentences = []
    for number, row in enumerate(rows):
        doubts = {span_key(entity): 1.0 - entity["score"] for entity in predictions[number]}
        if alternatives is not None:
            doubts = {span_key(entity): entity["score"] for entity in alternatives[number]} | doubts
        words = [(word, missed) for word in row["tokens"]] if alternatives is None else []
        sentences.append([(_surface(row, span), doubt) for span, doubt in doubts.items()] + words)
    units = []
    for numbers in rows_by_document(rows) if whole_documents else [[number] for number in range(len(rows))]:
        length = sum(len(rows[number]["tokens"]) for number in numbers)
        if length:
            cost = length + READING * len(numbers)
            units.append(_Unit(tuple(numbers), cost, [sentences[number] for number in numbers]))
    return units


def _surface(row: Mapping[str, Any], span: tuple[int, int, str]) -> Any:
    """The words of a span with its label."""
    return tuple(row["tokens"][span[0] : span[1]]), span[2]


def _names(row: Mapping[str, Any]) -> list[Any]:
    """The words of a labelled row and the surfaces of its entities, as often as they occur."""
    return [*row["tokens"], *(_surface(row, span_key(entity)) for entity in row["entities"])]


def _value(unit: _Unit, chosen: Mapping[Any, int]) -> tuple[float, float]:
    """The gain of a unit beside what was chosen, and its expected errors; within it, too, repeats count less."""
    counts: Counter[Any] = Counter()
    gain = errors = 0.0
    for doubts in unit.sentences:
        expected = 0.0
        for name, doubt in doubts:
            expected += doubt * DECAY ** (chosen[name] + counts[name])
            counts[name] += 1
        gain, errors = gain + sqrt(expected), errors + expected
    return gain, errors

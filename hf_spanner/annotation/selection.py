"""Which texts to label next: those where a model expects the most errors for the words that have to be read."""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hf_spanner.annotation.folds import rows_by_document
from hf_spanner.core.spans import EntityLists

READING = 10  # words that the opening of one more sentence costs beside its own
DECAY = 0.5  # what the same surface or word is worth after it was chosen once more


class Choice(NamedTuple):
    """A chosen unit.

    Attributes:
        rows: Numbers of its rows.
        gain: Expected errors that are new beside the units chosen before it.
        cost: Its words, and 10 more for each row.
    """

    rows: tuple[int, ...]
    gain: float
    cost: int


class _Unit(NamedTuple):
    """A unit, with what each of its surfaces and words is worth as long as none was chosen."""

    rows: tuple[int, ...]
    cost: int
    worth: list[tuple[Any, float]]


def selected_units(
    rows: Sequence[Mapping[str, Any]],
    predictions: EntityLists,
    number: int,
    *,
    whole_documents: bool = False,
    known_words: Sequence[str] = (),
) -> list[Choice]:
    """The units to label, the most valuable first.

    A predicted span of calibrated score p is wrong with probability 1 - p. Of errors that leave no span as many are
    expected, spread evenly: m = sum (1 - p) / words for each word of all rows. Both count less each time that the same
    surface with the same label, or the same word, was chosen before, so that choices differ:

        gain = sum over spans (1 - p) 2^-c(surface, label) + sum over words m 2^-c(word)

    where c counts the chosen units that hold it. The unit of the highest gain / cost comes next. Gains only fall as
    more is chosen, so a unit is valued anew only when it heads the queue, as in lazy greedy choice (Minoux 1978).

    Args:
        rows: Rows with `tokens` and, for whole documents, `document`; their entities play no part.
        predictions: Entities of each row, with calibrated scores.
        number: How many units; all if there are fewer.
        whole_documents: Choose documents, not sentences; a row that names none is one of its own.
        known_words: Words that were labelled before, as often as they occurred; they are worth less from the start.

    Returns:
        Choices in their order; ties go to the earlier unit. Units without words are left out.

    Raises:
        ValueError: If `number` is below 1 or the predictions are of other rows.
    """
    if number < 1:
        raise ValueError(f"number must be at least 1, got {number}")
    if len(predictions) != len(rows):
        raise ValueError(f"predictions must be of {len(rows)} rows, got {len(predictions)}")
    units = _units(rows, predictions, whole_documents)
    chosen: Counter[Any] = Counter(known_words)
    queue = [(-_gain(unit, chosen) / unit.cost, place, 0) for place, unit in enumerate(units)]
    heapq.heapify(queue)
    choices: list[Choice] = []
    while queue and len(choices) < number:
        _, place, valued_at = heapq.heappop(queue)
        unit = units[place]
        gain = _gain(unit, chosen)
        if valued_at < len(choices):
            heapq.heappush(queue, (-gain / unit.cost, place, len(choices)))
            continue
        choices.append(Choice(unit.rows, gain, unit.cost))
        chosen.update({name for name, _ in unit.worth})
    return choices


def _units(rows: Sequence[Mapping[str, Any]], predictions: EntityLists, whole_documents: bool) -> list[_Unit]:
    """The units that have words, in the order of their first rows."""
    num_words = sum(len(row["tokens"]) for row in rows)
    doubts = sum(1.0 - entity["score"] for entities in predictions for entity in entities)
    missed = doubts / num_words if num_words else 0.0
    units = []
    for numbers in rows_by_document(rows) if whole_documents else [[number] for number in range(len(rows))]:
        words = [word for number in numbers for word in rows[number]["tokens"]]
        if not words:
            continue
        worth: list[tuple[Any, float]] = [(word, missed) for word in words]
        for number in numbers:
            for entity in predictions[number]:
                surface = tuple(rows[number]["tokens"][entity["start"] : entity["end"]])
                worth.append(((surface, entity["label"]), 1.0 - entity["score"]))
        units.append(_Unit(tuple(numbers), len(words) + READING * len(numbers), worth))
    return units


def _gain(unit: _Unit, chosen: Mapping[Any, int]) -> float:
    """What a unit adds to what was chosen; within it, too, repeats count less."""
    counts: Counter[Any] = Counter()
    gain = 0.0
    for name, worth in unit.worth:
        gain += worth * DECAY ** (chosen[name] + counts[name])
        counts[name] += 1
    return gain

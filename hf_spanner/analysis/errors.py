"""Kinds of errors: each wrong prediction and each missed gold span has exactly one, and examples of them."""

import random
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from hf_spanner.metrics.span_ner.matching import SpanKey

KINDS = {
    "wrong_label": "wrong label",
    "wrong_left": "wrong left boundary",
    "wrong_right": "wrong right boundary",
    "wrong_both": "both boundaries wrong",
    "wrong_boundary_and_label": "wrong boundary and label",
    "missed": "missed",
    "invented": "invented",
}


class Error(NamedTuple):
    """One error; `predicted` is None for a missed gold span, `gold` for an invented one."""

    kind: str
    predicted: SpanKey | None
    gold: SpanKey | None

    @property
    def text(self) -> int:
        """Number of the text that it is in."""
        key = self.gold if self.predicted is None else self.predicted
        assert key is not None
        return key[0]


def span_errors(predicted: Collection[SpanKey], gold: Collection[SpanKey]) -> list[Error]:
    """All errors, in the order of their texts.

    Correct spans are set aside first. Of the rest, a prediction and a gold span of one text that share a word may make
    a pair, each span in one pair at most; pairs are taken greedily, those of the largest intersection over union first;
    among equals come the pair with equal labels, then the earlier gold span, then the earlier prediction (start, end,
    label).

    A pair with equal boundaries is `wrong_label`; with equal labels it is `wrong_left` (ends agree), `wrong_right`
    (starts agree) or `wrong_both`; with neither it is `wrong_boundary_and_label`, a kind of its own, so that the others
    are pure. A gold span without a pair is `missed`, a prediction without a pair `invented`; so is a
    prediction that only overlaps gold spans that were found.

    Every kind but `missed` counts one wrong prediction, and every kind but `invented` one gold span not found.

    Args:
        predicted: Predicted spans as (text, start, end, label); repeats count once.
        gold: Gold spans of the same texts.

    Returns:
        The errors; within a text pairs first, then missed, then invented.
    """
    wrong, unfound = set(predicted) - set(gold), set(gold) - set(predicted)
    wrong_by_text, unfound_by_text = spans_by_text(wrong), spans_by_text(unfound)
    errors = []
    for text in sorted(wrong_by_text.keys() | unfound_by_text.keys()):
        wrong_keys, unfound_keys = wrong_by_text[text], unfound_by_text[text]
        pairs = _pairs(wrong_keys, unfound_keys)
        paired = {key for pair in pairs for key in pair}
        errors += [Error(_kind(guess, missed), guess, missed) for guess, missed in pairs]
        errors += [Error("missed", None, key) for key in unfound_keys if key not in paired]
        errors += [Error("invented", key, None) for key in wrong_keys if key not in paired]
    return errors


def error_counts(errors: Iterable[Error]) -> dict[str, int]:
    """Number of errors of every kind, in the order of `KINDS`."""
    counts = Counter(error.kind for error in errors)
    return {kind: counts[kind] for kind in KINDS}


def chosen_examples(errors: Sequence[Error], num_examples: int, seed: int) -> dict[str, list[Error]]:
    """A random choice of errors of each kind, the same for the same errors and seed.

    Args:
        errors: All errors.
        num_examples: Most examples of a kind.
        seed: Seed of the choice; each kind is drawn by itself.

    Returns:
        By kind that occurs, its examples in the order of the errors.
    """
    chosen = {}
    for kind in KINDS:
        kind_errors = [error for error in errors if error.kind == kind]
        places = random.Random(seed).sample(range(len(kind_errors)), min(num_examples, len(kind_errors)))
        if places:
            chosen[kind] = [kind_errors[place] for place in sorted(places)]
    return chosen


def context_window(error: Error, num_words: int, reach: int) -> tuple[int, int]:
    """Words to show around an error.

    Args:
        error: The error.
        num_words: Words of its text.
        reach: Most words on either side.

    Returns:
        (first, end), half-open, such that both spans lie inside.
    """
    keys = [key for key in (error.predicted, error.gold) if key is not None]
    first, end = min(key[1] for key in keys), max(key[2] for key in keys)
    return max(0, first - reach), min(num_words, end + reach)


def spans_by_text(keys: Iterable[SpanKey]) -> dict[int, list[SpanKey]]:
    """Sorted spans of each text."""
    keys_by_text: dict[int, list[SpanKey]] = defaultdict(list)
    for key in sorted(keys):
        keys_by_text[key[0]].append(key)
    return keys_by_text


def _pairs(wrong: Sequence[SpanKey], unfound: Sequence[SpanKey]) -> list[tuple[SpanKey, SpanKey]]:
    """Greedy one-to-one pairs of the sorted spans of one text, best first."""
    possible = []
    starts = [missed[1] for missed in unfound]
    longest = max((missed[2] - missed[1] for missed in unfound), default=0)
    for guess in wrong:
        for missed in unfound[bisect_right(starts, guess[1] - longest) : bisect_left(starts, guess[2])]:
            shared = min(guess[2], missed[2]) - max(guess[1], missed[1])
            if shared > 0:
                union = (guess[2] - guess[1]) + (missed[2] - missed[1]) - shared
                possible.append((-shared / union, guess[3] != missed[3], missed, guess))
    pairs: dict[SpanKey, SpanKey] = {}
    taken = set()
    for *_, missed, guess in sorted(possible):
        if guess not in pairs and missed not in taken:
            pairs[guess] = missed
            taken.add(missed)
    return list(pairs.items())


def _kind(guess: SpanKey, missed: SpanKey) -> str:
    """Kind of a pair."""
    same_start, same_end, same_label = (guess[place] == missed[place] for place in (1, 2, 3))
    if same_start and same_end:
        return "wrong_label"
    if not same_label:
        return "wrong_boundary_and_label"
    if same_end:
        return "wrong_left"
    return "wrong_right" if same_start else "wrong_both"

"""Strict precision, recall and F1 by group: length, nesting depth, label, seen or unseen surface."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from hf_spanner.calibration.shift import known_surfaces
from hf_spanner.metrics.span_ner.matching import SpanKey

LENGTHS = ("1", "2", "3", "4", "5 to 9", "10 or more")
DEPTHS = ("0", "1", "2", "3 or more")
SURFACES = ("seen", "unseen")
Rows = Iterable[Mapping[str, Any]]


def scores_by_group(
    predicted: Collection[SpanKey],
    gold: Collection[SpanKey],
    texts: Sequence[Sequence[str]],
    training_rows: Rows | None = None,
) -> dict[str, dict[str, dict[str, Any]]]:
    """Scores of all groupings by name, each as `group_scores` gives them.

    Args:
        predicted: Predicted spans as (text, start, end, label).
        gold: Gold spans of the same texts.
        texts: The words of each text.
        training_rows: Rows with `tokens` and `entities` whose surfaces count as seen.

    Returns:
        `length`, `depth`, `label` and, given training rows, `surface`.
    """
    depth_group = depth_groups(gold)
    labels = sorted({key[3] for key in (*predicted, *gold)})
    groups = {
        "length": group_scores(predicted, gold, length_group, LENGTHS),
        "depth": group_scores(predicted, gold, depth_group, DEPTHS),
        "label": group_scores(predicted, gold, lambda key: key[3], labels),
    }
    if training_rows is not None:
        groups["surface"] = group_scores(predicted, gold, surface_groups(texts, training_rows), SURFACES)
    return groups


def group_scores(
    predicted: Collection[SpanKey], gold: Collection[SpanKey], group_of: Callable[[SpanKey], str], names: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Strict scores of each group of spans.

    precision = correct / predicted spans of the group, recall = correct / gold spans of the group, and
    f1 = 2 correct / (predicted + gold). The group is a function of the span, the same for predicted and gold, so a
    correct span stands in one group on both sides, and the counts of all groups add up to those of the data. A ratio
    without a denominator is 0.

    Args:
        predicted: Predicted spans as (text, start, end, label); repeats count once.
        gold: Gold spans of the same texts.
        group_of: Name of the group of a span.
        names: All names in the order of the result.

    Returns:
        For each group that holds a span: precision, recall, f1, num_gold, num_predicted, num_correct.
    """
    predicted_keys, gold_keys = set(predicted), set(gold)
    sides = (predicted_keys & gold_keys, predicted_keys, gold_keys)
    num_correct, num_predicted, num_gold = (Counter(map(group_of, side)) for side in sides)
    return {
        name: {
            "precision": num_correct[name] / max(num_predicted[name], 1),
            "recall": num_correct[name] / max(num_gold[name], 1),
            "f1": 2 * num_correct[name] / (num_predicted[name] + num_gold[name]),
            "num_gold": num_gold[name],
            "num_predicted": num_predicted[name],
            "num_correct": num_correct[name],
        }
        for name in names
        if num_predicted[name] + num_gold[name]
    }


def length_group(key: SpanKey) -> str:
    """Group of a span by its own length in words; 1 to 4, 5 to 9 and more are those of Shen et al. 2021, Table 3."""
    length = key[2] - key[1]
    if length >= 10:
        return LENGTHS[-1]
    return LENGTHS[min(length, 5) - 1]


def depth_groups(gold: Iterable[SpanKey]) -> Callable[[SpanKey], str]:
    """Group of a span by its depth: how many gold spans of its text contain it and are longer.

    The depth of a predicted span is counted among gold spans too, so that it does not depend on what else was
    predicted. Several labels on the same words count once.

    Args:
        gold: All gold spans.

    Returns:
        The function from span to group; "0" is a span inside no other.
    """
    boundaries_by_text: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for text, start, end, _ in gold:
        boundaries_by_text[text].add((start, end))
    spans_by_text = {text: sorted(boundaries) for text, boundaries in boundaries_by_text.items()}
    longest = {text: max(end - start for start, end in boundaries) for text, boundaries in spans_by_text.items()}

    def depth_group(key: SpanKey) -> str:
        text, start, end, _ = key
        spans = spans_by_text.get(text, [])
        near = spans[bisect_left(spans, (end - longest.get(text, 0),)) : bisect_left(spans, (start + 1,))]
        depth = sum(end <= last and last - first > end - start for first, last in near)
        return DEPTHS[min(depth, len(DEPTHS) - 1)]

    return depth_group


def surface_groups(texts: Sequence[Sequence[str]], training_rows: Rows) -> Callable[[SpanKey], str]:
    """Group of a span by whether its words are an entity, of any label, somewhere in the training rows.

    Words are compared one by one with their letter case: "Apple" does not make "apple" seen.

    Args:
        texts: The words of each text.
        training_rows: Rows with `tokens` and `entities`.

    Returns:
        The function from span to `seen` or `unseen`.
    """
    seen = known_surfaces(training_rows)

    def surface_group(key: SpanKey) -> str:
        text, start, end, _ = key
        return SURFACES[0] if tuple(texts[text][start:end]) in seen else SURFACES[1]

    return surface_group

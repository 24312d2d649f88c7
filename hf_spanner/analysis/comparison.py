"""Two models on the same texts: how sure their difference is, where they agree, and examples where they do not."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow.parquet as pq

from hf_spanner.analysis.errors import spans_by_text
from hf_spanner.core.spans import EntityLists
from hf_spanner.metrics.span_ner.matching import SpanKey, SpanLists, matched_spans, span_keys
from hf_spanner.metrics.span_ner.resampling import num_documents, paired_bootstrap
from hf_spanner.metrics.span_ner.scoring import score_spans, score_text
from hf_spanner.training.model_card import markdown_table

UNSHOWN = "\N{REPLACEMENT CHARACTER}"  # for a control character of the data, which a terminal might obey
CONTEXT = 8  # words on either side of an example
SCORES = (
    ("overall_f1", "strict F1", 100, 2),
    ("overall_precision", "precision", 100, 2),
    ("overall_recall", "recall", 100, 2),
    ("overall_ece", "ECE", 1, 4),
)
AGREEMENT = {
    "gold": "gold entities found by",
    "wrong": "wrong predictions of",
    "other_label": "same boundaries, other label; right is",
}
SIDES = {"both": "both", "only_first": "only A", "only_second": "only B", "neither": "neither"}
KINDS = {
    "right_only_first": "Found by A only",
    "right_only_second": "Found by B only",
    "wrong_only_first": "Wrong, by A only",
    "wrong_only_second": "Wrong, by B only",
}


def read_predictions(source: str) -> tuple[EntityLists, EntityLists]:
    """Predicted and gold spans of a kept run, as `benchmarks/quality.py` writes it.

    Args:
        source: A Parquet file and the name of one of its runs, FILE.parquet#RUN. The file has the columns run, row
            (from 0), predicted (start, end, label, score) and gold (start, end, label).

    Returns:
        Both as the prediction of rows gives them.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file has no such run, or a row of it is missing or there twice.
    """
    file, _, run = source.partition("#")
    try:
        rows = pq.read_table(file, columns=["row", "predicted", "gold"], filters=[("run", "==", run)]).sort_by("row")
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{file}: there is no such file of kept predictions") from error
    if rows.num_rows == 0:
        known = pq.read_table(file, columns=["run"])["run"].unique().to_pylist()
        raise ValueError(f"{file}: the run after # must be one of {', '.join(known)}, got {run!r}")
    if rows["row"].to_pylist() != list(range(rows.num_rows)):
        raise ValueError(f"{source} must hold each row from 0 to {rows.num_rows - 1} once")
    predicted = [[{**span, "score": float(span["score"])} for span in spans] for spans in rows["predicted"].to_pylist()]
    return predicted, rows["gold"].to_pylist()


def comparison(
    first: SpanLists,
    second: SpanLists,
    gold: SpanLists,
    *,
    documents: Sequence[str | None],
    num_bins: int = 10,
    num_resamples: int = 1000,
) -> dict[str, Any]:
    """Scores of two models, the paired bootstrap of their differences, and where they agree.

    Args:
        first: Predictions of one model for each text.
        second: Predictions of the other for the same texts.
        gold: The gold spans of these texts.
        documents: For each text the name of its document; None stands for a document of its own.
        num_bins: Bins of the calibration error.
        num_resamples: Resamples of the documents.

    Returns:
        first and second (as `score_spans`), paired (as `paired_bootstrap`; None with fewer than two documents or no
        resamples) and agreement (as `agreement`).

    Raises:
        ValueError: As `score_spans`.
    """
    paired = None
    if num_resamples and num_documents(documents) > 1:
        paired = paired_bootstrap(
            first, second, gold, documents=documents, num_bins=num_bins, num_resamples=num_resamples
        )
    first_spans, gold_spans = matched_spans(first, gold)
    second_spans, _ = matched_spans(second, gold)
    return {
        "first": score_spans(first, gold, num_bins=num_bins),
        "second": score_spans(second, gold, num_bins=num_bins),
        "paired": paired,
        "agreement": agreement(first_spans, second_spans, gold_spans),
    }


def agreement(
    first: Collection[SpanKey], second: Collection[SpanKey], gold: Collection[SpanKey]
) -> dict[str, dict[str, int]]:
    """Counts of what two models find, and of what they predict wrongly.

    Args:
        first: Predicted spans of one model, each once.
        second: Predicted spans of the other model.
        gold: The gold spans.

    Returns:
        gold {both, only_first, only_second, neither}: gold spans by who finds them; wrong {both, only_first,
        only_second}: predictions that are no gold span, by who makes them; other_label {both, only_first, only_second,
        neither}: boundaries that both predict, but with other labels, by whose labels hold one that is right.
    """
    first_keys, second_keys, gold_keys = set(first), set(second), set(gold)
    first_wrong, second_wrong = first_keys - gold_keys, second_keys - gold_keys
    first_labels, second_labels, gold_labels = (
        _labels_of_boundaries(keys) for keys in (first_keys, second_keys, gold_keys)
    )
    label_counts = {"both": 0, "only_first": 0, "only_second": 0, "neither": 0}
    for place in first_labels.keys() & second_labels.keys():
        if first_labels[place] != second_labels[place]:
            hits = [
                bool(side_labels[place] & gold_labels.get(place, set()))
                for side_labels in (first_labels, second_labels)
            ]
            label_counts[_side(*hits)] += 1
    return {
        "gold": {
            "both": len(gold_keys & first_keys & second_keys),
            "only_first": len(gold_keys & first_keys - second_keys),
            "only_second": len(gold_keys & second_keys - first_keys),
            "neither": len(gold_keys - first_keys - second_keys),
        },
        "wrong": {
            "both": len(first_wrong & second_wrong),
            "only_first": len(first_wrong - second_wrong),
            "only_second": len(second_wrong - first_wrong),
        },
        "other_label": label_counts,
    }


def differing_examples(
    first: Mapping[SpanKey, float],
    second: Mapping[SpanKey, float],
    gold: Collection[SpanKey],
    texts: Sequence[Sequence[str]],
    *,
    num_examples: int,
) -> dict[str, list[dict[str, Any]]]:
    """Spans that only one of two models predicts, those with the highest scores first, in their context.

    Args:
        first: Predicted spans of one model with their scores.
        second: Predicted spans of the other model.
        gold: The gold spans.
        texts: Words of each text.
        num_examples: Most examples of a kind.

    Returns:
        For each kind (right_only_first, right_only_second, wrong_only_first, wrong_only_second) examples of text (its
        number), before, span and after (words, joined by blanks), label, and gold, first and second: the spans of each
        side that share a word with this one, as (span, label) or (span, label, score).
    """
    gold_keys = set(gold)
    by_text = {side: spans_by_text(keys) for side, keys in (("gold", gold_keys), ("first", first), ("second", second))}
    scores: dict[str, Mapping[SpanKey, float]] = {"gold": {}, "first": first, "second": second}
    examples = {}
    for is_right in (True, False):
        for side, side_scores, other_scores in (("first", first, second), ("second", second, first)):
            keys = [key for key in side_scores if key not in other_scores and (key in gold_keys) == is_right]
            keys.sort(key=lambda key, side_scores=side_scores: (-side_scores[key], key))
            kind = f"{'right' if is_right else 'wrong'}_only_{side}"
            examples[kind] = [_example(key, texts[key[0]], by_text, scores) for key in keys[:num_examples]]
    return examples


def check_same_gold(gold: SpanLists, expected: SpanLists, name: str) -> None:
    """Raise a ValueError unless two sides have the same texts, as far as their gold spans tell.

    Args:
        gold: Gold spans of each text.
        expected: What they must be, in any order within a text.
        name: Name of the side, for the message.
    """
    if len(gold) != len(expected):
        raise ValueError(f"{name}: must hold the same rows as the other side, got {len(gold)} for {len(expected)}")
    given, wanted = (spans_by_text(set(span_keys(side, "references"))) for side in (gold, expected))
    for text in range(len(gold)):
        if given.get(text) != wanted.get(text):
            raise ValueError(
                f"{name}: row {text + 1} must have the same gold entities as the other side, "
                f"got {[key[1:] for key in given.get(text, [])]} for {[key[1:] for key in wanted.get(text, [])]}"
            )


def comparison_report(result: Mapping[str, Any], names: Mapping[str, str], documents: Sequence[str | None]) -> str:
    """Scores and differences, then the tables of agreement.

    Args:
        result: As `comparison` gives it.
        names: Names of A, the first model, and B, the second.
        documents: For each text the name of its document.

    Returns:
        Lines and Markdown tables.
    """
    nameless = sum(name is None for name in documents)
    note = f"; {nameless:,} rows name no document and count as one each" if nameless else ""
    paired = result["paired"]
    if paired is None:
        number = num_documents(documents)
        line = "No bootstrap: as asked for" if number > 1 else f"No bootstrap: {number:,} documents{note}"
    else:
        line = (
            f"Paired bootstrap: {paired['num_resamples']:,} resamples of {paired['num_documents']:,} documents{note}. "
            "p is two-sided, of no difference."
        )
    head = "\n".join(f"{letter}: {name}" for letter, name in names.items())
    return "\n\n".join([head, _score_table(result), line, *_agreement_tables(result["agreement"]), ""])


def example_report(examples: Mapping[str, Sequence[Mapping[str, Any]]], ids: Sequence[str | None]) -> str:
    """Examples of each kind in context, with what gold and both models have there.

    Args:
        examples: As `differing_examples` gives them.
        ids: Name of each text; a text without a name is called by its number, from 1.

    Returns:
        Lines, the span of an example in brackets before its label.
    """
    lines = []
    for kind, title in KINDS.items():
        lines.append(f"{title}, the surest first:")
        for example in examples[kind]:
            name = ids[example["text"]] or f"row {example['text'] + 1}"
            context = " ".join([example["before"], f"[{example['span']}]{example['label']}", example["after"]])
            lines.append(f"- {name}: {context.strip()}")
            for side, letter in (("gold", "gold"), ("first", "A"), ("second", "B")):
                lines.append(f"    {letter}: {'; '.join(map(_entity_text, example[side])) or 'nothing'}")
        lines.append("")
    return "\n".join("".join(sign if sign.isprintable() else UNSHOWN for sign in line) for line in lines)


def _score_table(result: Mapping[str, Any]) -> str:
    """Scores of both, the difference and, from a bootstrap, its interval and p."""
    paired, lines = result["paired"], []
    header = ["score", "A", "B", "A - B"]
    if paired is not None:
        header += [f"{100 * paired['confidence_level']:g}% interval", "p"]
    for name, title, scale, digits in SCORES:
        first, second = result["first"][name], result["second"][name]
        difference = None if first is None or second is None else first - second
        line = [title, *(_scaled(value, scale, digits) for value in (first, second, difference))]
        if paired is not None:
            line.append(" to ".join(_scaled(paired[name][end], scale, digits) for end in ("low", "high")))
            line.append(score_text(paired[name]["p_value"]))
        lines.append(line)
    return markdown_table(header, lines)


def _scaled(value: float | None, scale: int, digits: int) -> str:
    """A score in its unit."""
    return score_text(None if value is None else scale * value, digits)


def _agreement_tables(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """A table each of gold entities, wrong predictions and boundaries with two labels."""
    tables = []
    for name, title in AGREEMENT.items():
        total = max(sum(counts[name].values()), 1)
        lines = [[SIDES[side], f"{count:,}", f"{100 * count / total:.1f}%"] for side, count in counts[name].items()]
        tables.append(markdown_table([title, "number", "share"], lines))
    return tables


def _entity_text(entity: Sequence[Any]) -> str:
    """Surface, label and, if there is one, score."""
    surface, label, *score = entity
    return " ".join([f"[{surface}]{label}", *(f"{value:.2f}" for value in score)])


def _example(
    key: SpanKey,
    words: Sequence[str],
    by_text: Mapping[str, Mapping[int, Iterable[SpanKey]]],
    scores: Mapping[str, Mapping[SpanKey, float]],
) -> dict[str, Any]:
    """One span in its context, with what gold and both models have there."""
    text, start, end, label = key
    example: dict[str, Any] = {
        "text": text,
        "before": " ".join(words[max(0, start - CONTEXT) : start]),
        "span": " ".join(words[start:end]),
        "after": " ".join(words[end : end + CONTEXT]),
        "label": label,
    }
    for side, keys in by_text.items():
        example[side] = [
            (
                " ".join(words[neighbour[1] : neighbour[2]]),
                neighbour[3],
                *([scores[side][neighbour]] if neighbour in scores[side] else []),
            )
            for neighbour in keys.get(text, ())
            if neighbour[1] < end and start < neighbour[2]
        ]
    return example


def _side(is_first: bool, is_second: bool) -> str:
    """Which of two sides it holds for."""
    if is_first and is_second:
        return "both"
    if is_first:
        return "only_first"
    return "only_second" if is_second else "neither"


def _labels_of_boundaries(keys: Iterable[SpanKey]) -> dict[tuple[int, int, int], set[str]]:
    """Labels of each (text, start, end)."""
    labels: dict[tuple[int, int, int], set[str]] = defaultdict(set)
    for key in keys:
        labels[key[:3]].add(key[3])
    return labels

"""What can be known about the test split: the best reachable scores, true confidences, and a dictionary's score."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable

import numpy as np
from cast import COINS

from hf_spanner.metrics.span_ner.reliability import bin_numbers, calibration_error

Row = dict
SpanKey = tuple[str, int, int, str]  # row id, start, end, label
NUM_BINS = 10


def span_keys(rows: Iterable[Row]) -> set[SpanKey]:
    """Entities of rows as (id, start, end, label), half-open in words."""
    return {(row["id"], entity["start"], entity["end"], entity["label"]) for row in rows for entity in row["entities"]}


def key_of(record: Row) -> SpanKey:
    """The span of a coin record."""
    return record["id"], record["start"], record["end"], record["label"]


def likeliest_spans(coin_records: Iterable[Row]) -> dict[SpanKey, float]:
    """The likeliest span of every entity with its true probability: what the best single-span decoder predicts."""
    best: dict[tuple[str, int], Row] = {}
    for record in coin_records:
        place = record["id"], record["mention"]
        if place not in best or record["probability"] > best[place]["probability"]:
            best[place] = record
    return {key_of(record): record["probability"] for record in best.values()}


def optimal_spans(coin_records: list[Row]) -> dict[SpanKey, float]:
    """The set of spans with the best expected F1, any number per entity.

    With S spans predicted and N entities, both fixed, F1 = 2 TP / (S + N) is linear in TP. A span helps if its
    probability exceeds half of the F1 reached; repeating this from 0 climbs to the optimum (Dinkelbach's method).
    """
    probabilities = {key_of(record): record["probability"] for record in coin_records}
    num_entities = len({(record["id"], record["mention"]) for record in coin_records})
    f1, previous = 0.0, -1.0
    chosen = probabilities
    while f1 > previous:
        previous = f1
        chosen = {key: probability for key, probability in probabilities.items() if probability > f1 / 2}
        f1 = 2 * math.fsum(chosen.values()) / (len(chosen) + num_entities)
    return chosen


def f1_scores(true_positives: float, num_predicted: int, num_gold: int) -> tuple[float, float, float]:
    """Strict precision, recall and F1, for counts or for an expected count."""
    return true_positives / num_predicted, true_positives / num_gold, 2 * true_positives / (num_predicted + num_gold)


def calibration_errors(predictions: dict[SpanKey, float], gold: set[SpanKey]) -> tuple[float, float]:
    """Realised and expected ECE (10 bins, upper edge inside) of predictions whose scores are the true probabilities.

    The expected one is what sampling alone gives: for each bin sqrt(2 / pi) times the standard deviation of its hits.
    """
    scores = np.array([round(probability, 9) for probability in predictions.values()])  # so that .15 + .15 is .3
    realised = calibration_error(scores.tolist(), [key in gold for key in predictions], NUM_BINS)["ece"]
    variances = np.bincount(bin_numbers(scores, NUM_BINS), weights=scores * (1 - scores))
    expected = math.fsum(np.sqrt(2 / math.pi * variances)) / len(predictions)
    return realised, expected


def surfaces(row: Row, longest: int) -> Iterable[tuple[int, int, tuple[str, ...]]]:
    """Every word sequence of a row up to a length, lower-cased, with its half-open place."""
    words = [token.lower() for token in row["tokens"]]
    for start in range(len(words)):
        for end in range(start + 1, min(len(words), start + longest) + 1):
            yield start, end, tuple(words[start:end])


def dictionary_spans(train: list[Row], test: list[Row]) -> set[SpanKey]:
    """Every place of test where an entity of train occurs, with its commonest label there (ties: the first by name)."""
    labels: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for row in train:
        for entity in row["entities"]:
            labels[tuple(token.lower() for token in row["tokens"][entity["start"] : entity["end"]])][
                entity["label"]
            ] += 1
    longest = max(map(len, labels))
    commonest = {surface: min(counts, key=lambda label: (-counts[label], label)) for surface, counts in labels.items()}
    return {
        (row["id"], start, end, commonest[surface])
        for row in test
        for start, end, surface in surfaces(row, longest)
        if surface in commonest
    }


def unseen_share(train: list[Row], test: list[Row]) -> tuple[float, float]:
    """Share of test entities whose surface is no entity of train, and of those with a word that train never has."""
    known = {tuple(row["tokens"][e["start"] : e["end"]]) for row in lowered(train) for e in row["entities"]}
    words = {token for row in lowered(train) for token in row["tokens"]}
    test_surfaces = [tuple(row["tokens"][e["start"] : e["end"]]) for row in lowered(test) for e in row["entities"]]
    new_words = sum(any(token not in words for token in surface) for surface in test_surfaces)
    return sum(surface not in known for surface in test_surfaces) / len(test_surfaces), new_words / len(test_surfaces)


def label_counts(rows: list[Row]) -> Counter[int]:
    """Number of one-word surfaces that occur as an entity at least five times, by how many labels they have."""
    labels: dict[str, list[str]] = defaultdict(list)
    for row in lowered(rows):
        for entity in row["entities"]:
            if entity["end"] - entity["start"] == 1:
                labels[row["tokens"][entity["start"]]].append(entity["label"])
    return Counter(len(set(surface_labels)) for surface_labels in labels.values() if len(surface_labels) >= 5)


def lowered(rows: list[Row]) -> Iterable[Row]:
    """Rows with lower-case words."""
    return ({**row, "tokens": [token.lower() for token in row["tokens"]]} for row in rows)


def depth_counts(rows: list[Row]) -> Counter[int]:
    """Number of entities by how many entities they lie in, themselves included."""
    counts: Counter[int] = Counter()
    for row in rows:
        spans = [(entity["start"], entity["end"]) for entity in row["entities"]]
        counts.update(sum(a <= start and end <= b for a, b in spans) for start, end in spans)
    return counts


def split_table(rows: dict[str, list[Row]]) -> list[str]:
    """Markdown table of sizes, one column per split."""
    columns = []
    for split in rows.values():
        lengths = [len(row["tokens"]) for row in split]
        entities = [entity["label"] for row in split for entity in row["entities"]]
        labels, depths = Counter(entities), depth_counts(split)
        mean = sum(lengths) / len(lengths)
        empty = sum(not row["entities"] for row in split) / len(split)
        columns.append(
            {
                "sentences": f"{len(split)}",
                "documents": f"{len({row['document'] for row in split})}",
                "words per sentence, shortest / mean / longest": f"{min(lengths)} / {mean:.1f} / {max(lengths)}",
                "sentences without entities": f"{empty:.1%}",
                "entities": f"{len(entities)}",
                **{label: f"{labels[label]}" for label in sorted(labels)},
                "entities at depth 1 / 2 / 3": " / ".join(f"{depths[depth]}" for depth in sorted(depths)),
            }
        )
    lines = [f"| | {' | '.join(rows)} |", "|---|" + "---|" * len(rows)]
    return lines + [f"| {name} | {' | '.join(column[name] for column in columns)} |" for name in columns[0]]


def coin_table(coin_records: list[Row], gold: set[SpanKey]) -> list[str]:
    """Markdown table of constructions: true confidence of the likeliest span, and how often it came true in test."""
    likeliest = likeliest_spans(coin_records)
    kinds = {key_of(record): record["construction"] for record in coin_records}
    lines = [
        "| construction | probability inside | true confidence of the likeliest span | entities | hits in test |",
        "|---|---|---|---|---|",
    ]
    for kind in sorted({*kinds.values()}, key=lambda kind: (kind == "none", "+" in kind, kind)):
        spans = [key for key in likeliest if kinds[key] == kind]
        inside = ", ".join(f"{COINS[part]:.2f}" for part in kind.split("+") if part in COINS) or "-"
        hits = sum(key in gold for key in spans) / len(spans)
        confidence = f"{likeliest[spans[0]]:.4f}".rstrip("0").rstrip(".")
        lines.append(f"| {kind} | {inside} | {confidence} | {len(spans)} | {hits:.3f} |")
    return lines


def score_table(rows: dict[str, list[Row]], coin_records: list[Row], gold: set[SpanKey]) -> list[str]:
    """Markdown table of strict scores on test: the decoders that know the coins, and the dictionary."""
    scores = {}
    for name, spans in (
        ("likeliest span of each entity", likeliest_spans(coin_records)),
        ("set with the best expected F1", optimal_spans(coin_records)),
    ):
        scores[f"{name}, expected"] = f1_scores(math.fsum(spans.values()), len(spans), len(gold))
        scores[f"{name}, committed test"] = f1_scores(len(spans.keys() & gold), len(spans), len(gold))
    dictionary = dictionary_spans(rows["train"], rows["test"])
    scores["dictionary of the train entities"] = f1_scores(len(dictionary & gold), len(dictionary), len(gold))
    lines = ["| on test | precision | recall | F1 |", "|---|---|---|---|"]
    return lines + [f"| {name} | {p:.4f} | {r:.4f} | {f1:.4f} |" for name, (p, r, f1) in scores.items()]


def readme_numbers(rows: dict[str, list[Row]], coin_records: list[Row]) -> str:
    """The measured part of the README."""
    gold = span_keys(rows["test"])
    likeliest = likeliest_spans(coin_records)
    spread = math.sqrt(math.fsum(p * (1 - p) for p in likeliest.values())) / len(gold)
    realised_ece, expected_ece = calibration_errors(likeliest, gold)
    coined = {(record["id"], record["mention"]) for record in coin_records if record["probability"] < 1}
    names = label_counts(rows["train"])
    ambiguous = sum(count for number, count in names.items() if number > 1)
    surface_share, word_share = unseen_share(rows["train"], rows["test"])
    lines = [*split_table(rows), "", *coin_table(coin_records, gold), "", *score_table(rows, coin_records, gold)]
    lines += [
        "",
        f"* Standard deviation of the likeliest-span F1 over coins: {spread:.4f}.",
        f"* ECE (10 bins) of the likeliest spans with true confidences: {realised_ece:.4f} on the committed test, "
        f"{expected_ece:.4f} expected from sampling alone ({len(likeliest)} spans, {len(coined)} of them with a coin).",
        f"* Entities with a coin: {len(coined) / len(gold):.1%} of test.",
        f"* Test entities whose surface is no entity of train: {surface_share:.1%}; with a word that train never has: "
        f"{word_share:.1%}.",
        f"* One-word names that are an entity of train at least five times: {names.total()}; {ambiguous} of them have "
        f"more than one label, {names[4] + names[5]} at least four.",
    ]
    return "\n".join(lines) + "\n"

"""The data report: before training it says what a corpus holds and what in it will disturb training."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from hf_spanner.data.schema import Entity, one_line, similar_labels

TRAIN = "train"


@dataclass
class SplitReport:
    """Counts of one split.

    Attributes:
        sentences: Rows.
        words: Words of all rows.
        entities: Entities of all rows.
        labels: Entities per label, by falling count.
        nested: Entities inside another or around another, a shared border allowed, equal spans not counted.
        two_labels: Entities whose span carries another label too; a method with one label a span loses some of them.
        crossing: Entities that overlap another without nesting.
        longest_entity: In words.
        longest_sentence: In words.
        no_words: Rows without words.
        repeated: Rows whose words came before in this split.
        repeated_from: Rows whose words occur in a split reported before, per split.
        unseen_labels: Entities of labels that the training split lacks, per label.
        documents: Distinct documents of the rows that name one.
        no_document: Rows that name none; each counts as its own document.
    """

    sentences: int = 0
    words: int = 0
    entities: int = 0
    labels: dict[str, int] = field(default_factory=dict)
    nested: int = 0
    two_labels: int = 0
    crossing: int = 0
    longest_entity: int = 0
    longest_sentence: int = 0
    no_words: int = 0
    repeated: int = 0
    repeated_from: dict[str, int] = field(default_factory=dict)
    unseen_labels: dict[str, int] = field(default_factory=dict)
    documents: int = 0
    no_document: int = 0

    @property
    def nested_share(self) -> float:
        """Share of entities that take part in nesting, 0.0 where there is none."""
        return self.nested / self.entities if self.entities else 0.0


@dataclass
class DataReport:
    """Reports of all splits, in their given order."""

    splits: dict[str, SplitReport]

    @property
    def similar_labels(self) -> list[list[str]]:
        """Labels of any split that differ only in letter case or separators."""
        return similar_labels(label for report in self.splits.values() for label in report.labels)

    def __str__(self) -> str:
        """A table with a column per split, then what needs attention."""
        reports = list(self.splits.values())
        rows = [["", *self.splits]]
        rows += [[name, *(f"{value(report):,}" for report in reports)] for name, value in _MEASURES.items()]
        rows.insert(4, ["nested", *(f"{report.nested_share:.1%}" for report in reports)])
        rows.append(["documents", *(f"{report.documents:,}" if report.documents else "unknown" for report in reports)])
        labels = Counter[str]()
        for report in reports:
            labels.update(report.labels)
        rows += [
            [f"  {one_line(label)}", *(f"{r.labels.get(label, 0):,}" for r in reports)]
            for label, _ in labels.most_common()
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
        return "\n".join(lines + self._remarks())

    def _remarks(self) -> list[str]:
        """A line for each thing that needs attention."""
        remarks = []
        for name, report in self.splits.items():
            for other, count in report.repeated_from.items():
                if count:
                    remarks.append(f"{name}: {count:,} of {report.sentences:,} sentences are also in {other}")
            if report.sentences and not report.entities:
                remarks.append(f"{name}: none of its {report.sentences:,} sentences has an entity")
            if report.unseen_labels:
                remarks.append(f"{name}: labels that {TRAIN} lacks: {report.unseen_labels}")
            if report.no_document:
                remarks.append(f"{name}: {report.no_document:,} sentences name no document; each counts as its own")
        remarks += [f"labels that look alike: {group}" for group in self.similar_labels]
        return remarks


_MEASURES = {
    "sentences": lambda report: report.sentences,
    "words": lambda report: report.words,
    "entities": lambda report: report.entities,
    "spans with two labels": lambda report: report.two_labels,
    "crossing": lambda report: report.crossing,
    "longest entity": lambda report: report.longest_entity,
    "longest sentence": lambda report: report.longest_sentence,
    "without words": lambda report: report.no_words,
    "repeated sentences": lambda report: report.repeated,
}


def data_report(splits: Mapping[str, Iterable[Mapping[str, Any]]]) -> DataReport:
    """Count what each split holds and what it shares with the splits before it.

    Args:
        splits: Rows of each split, read once. Labels are compared with those of "train".

    Returns:
        The report, which prints as a table.
    """
    reports: dict[str, SplitReport] = {}
    sentences: dict[str, set[bytes]] = {}
    for name, rows in splits.items():
        reports[name], sentences[name] = _split_report(rows, sentences)
    if TRAIN in reports:
        known = reports[TRAIN].labels
        for report in reports.values():
            report.unseen_labels = {label: count for label, count in report.labels.items() if label not in known}
    return DataReport(reports)


def _split_report(
    rows: Iterable[Mapping[str, Any]], earlier: Mapping[str, set[bytes]]
) -> tuple[SplitReport, set[bytes]]:
    """Counts of one split, and the digests of its sentences."""
    report = SplitReport(repeated_from=dict.fromkeys(earlier, 0))
    labels = Counter[str]()
    sentences: set[bytes] = set()
    documents = set()
    for row in rows:
        words, entities = row["tokens"], row["entities"]
        report.sentences += 1
        report.words += len(words)
        report.entities += len(entities)
        report.longest_sentence = max(report.longest_sentence, len(words))
        report.no_words += not words
        labels.update(entity["label"] for entity in entities)
        _count_overlaps(entities, report)
        digest = blake2b("\n".join(words).encode(), digest_size=16).digest()
        report.repeated += digest in sentences
        for name, others in earlier.items():
            report.repeated_from[name] += digest in others
        sentences.add(digest)
        document = row.get("document")
        documents.add(document)
        report.no_document += document is None
    report.labels = dict(labels.most_common())
    report.documents = len(documents - {None})
    return report, sentences


def _count_overlaps(entities: list[Entity], report: SplitReport) -> None:
    """Add the overlaps among the entities of one sentence; quadratic only in spans that lie close together."""
    spans = sorted(((entity["start"], entity["end"]) for entity in entities), key=lambda span: (span[0], -span[1]))
    nested, doubled, crossing = set(), set(), set()
    for first, (start, end) in enumerate(spans):
        report.longest_entity = max(report.longest_entity, end - start)
        for second in range(first + 1, len(spans)):
            inner_start, inner_end = spans[second]
            if inner_start >= end:
                break
            if (inner_start, inner_end) == (start, end):
                doubled |= {first, second}
            elif inner_end <= end:
                nested |= {first, second}
            else:
                crossing |= {first, second}
    report.nested += len(nested)
    report.two_labels += len(doubled)
    report.crossing += len(crossing)

from hypothesis import given
from hypothesis import strategies as st

from hf_spanner.data.report import SplitReport, data_report


def row(words, *spans, **names):
    entities = [{"start": start, "end": end, "label": label} for start, end, label in spans]
    return {"tokens": words.split(), "entities": entities, **names}


TRAIN = [
    row("Bank of Lake Tarn", (0, 4, "ORG"), (2, 4, "LOC"), document="a"),
    row("p53 gene", (0, 1, "DNA"), (0, 1, "PROT"), document="a"),
    row("it rains", document="b"),
    row("it rains"),
]
TEST = [row("it rains"), row("it pours"), row(""), row("Ana", (0, 1, "Per"), (0, 1, "PER"))]


def test_counts_of_each_split():
    report = data_report({"train": TRAIN, "test": TEST})
    assert report.splits["train"] == SplitReport(
        sentences=4,
        words=10,
        entities=4,
        labels={"ORG": 1, "LOC": 1, "DNA": 1, "PROT": 1},
        nested=2,
        two_labels=2,
        longest_entity=4,
        longest_sentence=4,
        repeated=1,
        documents=2,
        no_document=1,
    )
    assert report.splits["test"] == SplitReport(
        sentences=4,
        words=5,
        entities=2,
        labels={"Per": 1, "PER": 1},
        two_labels=2,
        longest_entity=1,
        longest_sentence=2,
        no_words=1,
        repeated_from={"train": 1},
        unseen_labels={"Per": 1, "PER": 1},
        no_document=4,
    )
    assert report.splits["train"].nested_share == 0.5
    assert report.similar_labels == [["PER", "Per"]]


def test_the_table_shows_every_split_label_and_remark():
    text = str(data_report({"train": TRAIN, "test": TEST}))
    lines = text.splitlines()
    assert lines[0].split() == ["train", "test"]
    assert "nested                 50.0%     0.0%" in lines
    assert "documents                  2  unknown" in lines
    assert [line.split() for line in lines if line.startswith("  ORG")] == [["ORG", "1", "0"]]
    assert "test: 1 of 4 sentences are also in train" in lines
    assert "test: labels that train lacks: {'Per': 1, 'PER': 1}" in lines
    assert "train: 1 sentences name no document; each counts as its own" in lines
    assert "labels that look alike: ['PER', 'Per']" in lines


def test_a_split_without_any_entity_is_told_and_a_label_stays_on_its_line():
    rows = [{"tokens": ["a"], "entities": []}] * 2
    lines = str(data_report({"train": rows, "test": []})).splitlines()
    assert "train: none of its 2 sentences has an entity" in lines
    assert not any(line.startswith("test:") for line in lines)
    rows = [{"tokens": ["a"], "entities": [{"start": 0, "end": 1, "label": "A\nB"}]}]
    assert [line.split() for line in str(data_report({"train": rows})).splitlines() if "A" in line] == [["A\\nB", "1"]]


def test_an_empty_split_divides_by_nothing():
    report = data_report({"train": []})
    assert report.splits["train"] == SplitReport()
    assert report.splits["train"].nested_share == 0.0
    assert "sentences" in str(report)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4), st.sampled_from("XY")), max_size=6, unique=True))
def test_overlaps_agree_with_comparing_every_pair(items):
    spans = [(start, start + length, label) for start, length, label in items]

    def count(relation):
        pairs = [[relation(a, b) for b in spans if b is not a] for a in spans]
        return sum(any(row) for row in pairs)

    def contains(a, b):
        return a[0] <= b[0] and b[1] <= a[1] and a[:2] != b[:2]

    def crosses(a, b):
        return max(a[0], b[0]) < min(a[1], b[1]) and not contains(a, b) and not contains(b, a) and a[:2] != b[:2]

    report = data_report({"train": [row("a b c d e f g h i j", *spans)]}).splits["train"]
    assert report.nested == count(lambda a, b: contains(a, b) or contains(b, a))
    assert report.two_labels == count(lambda a, b: a[:2] == b[:2])
    assert report.crossing == count(crosses)

import pytest

from hf_spanner.data.records import record_rows


def rows_of(records, reading):
    placed = [(f"f, line {line}", record) for line, record in enumerate(records, start=1)]
    return list(record_rows(placed, "f", reading))


def spans_of(row):
    return [list(entity.values()) for entity in row["entities"]]


@pytest.mark.parametrize(
    "record",
    [
        {"tokens": ["Lake", "Tarn", "is"], "entities": [{"start": 0, "end": 2, "label": "LOC"}]},
        {"tokens": ["Lake", "Tarn", "is"], "entities": [[0, 2, "LOC"]]},
        {"tokens": ["Lake", "Tarn", "is"], "entities": {"start": [0], "end": [2], "label": ["LOC"]}},
        {"tokens": ["Lake", "Tarn", "is"], "ner_tags": ["B-LOC", "I-LOC", "O"]},
        {"tokens": ["Lake", "Tarn", "is"], "tags": ["B-LOC", "I-LOC", "O"]},
        {"tokens": ("Lake", "Tarn", "is"), "labels": ("B-LOC", "I-LOC", "O")},
        {"tokens": ["Lake", "Tarn", "is"], "ner_tags": ["B-LOC", "I-LOC", "O"], "tags": ["NNP", "NNP", "VBZ"]},
        {"tokens": ["Lake", "Tarn", "is"], "entities": [[0, 2, "LOC"]], "labels": ["geography", "travel"]},
        {"tokens": ["Lake", "Tarn", "is"], "entities": [{"start": 0, "end": 2, "label": "LOC", "text": "Lake  Tarn"}]},
        {"tokenized_text": ["Lake", "Tarn", "is"], "ner": [[0, 1, "LOC"]]},
        {"text": "Lake Tarn is", "entities": [[0, 9, "LOC "]]},
    ],
)
def test_every_form_gives_the_same_row(record, reading):
    row = rows_of([record | {"id": 7, "document": "d", "other": 1}], reading())[0]
    assert (row["id"], row["document"], row["tokens"]) == ("7", "d", ["Lake", "Tarn", "is"])
    assert spans_of(row) == [[0, 2, "LOC"]]


@pytest.mark.parametrize(
    ("record", "mentions"),
    [
        ({}, ["fields is []", "tokens with entities"]),
        ({"text": 5, "entities": []}, ["text is 5"]),
        ({"text": "a"}, ["fields is ['text'] (form)", "the nearest is text with entities, without entities here"]),
        ({"tokens": ["a"], "entities": {"start": [0], "end": []}}, ["entities is {"]),
        ({"text": "a", "entities": {"start": [0], "end": [1], "label": ["X"], "text": []}}, ["entities is {"]),
        ({"tokens": ["a", None], "entities": []}, ["tokens[1]"]),
        ({"tokens": ["a"], "ner_tags": ["O", "O"]}, ["ner_tags", "1 tags"]),
        ({"tokens": ["a"], "ner_tags": [0]}, ["ner_tags", "ClassLabel"]),
        ({"tokens": ["a"], "entities": [], "document": ["d"]}, ["document is ['d']"]),
        ({"tokenized_text": ["a"], "ner": None}, ["tokenized_text with ner, without ner here"]),
        ({"text": "a", "entities": [], "ner_tags": ["O"]}, ["ner_tags is ['O'] (two truths)"]),
    ],
)
def test_a_record_that_cannot_be_read_is_refused_or_dropped(record, mentions, reading):
    with pytest.raises(ValueError, match="^f, line 1: ") as error:
        rows_of([record], reading())
    assert [text for text in mentions if text not in str(error.value)] == []
    lenient = reading(on_error="drop")
    assert rows_of([record, {"tokens": ["b"], "entities": []}], lenient)[0]["tokens"] == ["b"]
    assert sum(lenient.report.counts.values()) == 1


@pytest.mark.parametrize("entity", [[0, 1], "0-1", [0, 3, "X"], {"start": 0, "label": "X"}, [0, True, "X"], [0, 1, 3]])
def test_a_malformed_entity_is_refused_or_dropped_alone(entity, reading):
    record = {"tokens": ["a", "b"], "entities": [[1, 2, "X"], entity]}
    with pytest.raises(ValueError, match=r"^f, line 1: entities\[1\]"):
        rows_of([record], reading())
    lenient = reading(on_error="drop")
    assert spans_of(rows_of([record], lenient)[0]) == [[1, 2, "X"]]
    assert sum(lenient.report.counts.values()) == 1


@pytest.mark.parametrize(
    "entities",
    [
        [{"start": 0, "end": 3, "label": "PER", "text": "Ana"}, {"start": 4, "end": 6, "label": "PER", "text": "Ana"}],
        {"start": [0, 4], "end": [3, 6], "label": ["PER", "PER"], "text": ["Ana", "Ana"]},
    ],
)
def test_surfaces_are_checked_in_both_forms_of_entities(entities, reading):
    record = {"text": "Ana Bo", "entities": entities}
    with pytest.raises(ValueError, match=r"entities\[1\].text is 'Ana' \(surface\); allowed: 'Bo'"):
        rows_of([record], reading())
    assert spans_of(rows_of([record], reading(on_error="drop"))[0]) == [[0, 1, "PER"]]


def test_tags_are_read_in_the_detected_scheme(reading):
    auto = reading()
    rows = rows_of([{"tokens": ["a", "b"], "ner_tags": ["I-X", "B-X"]}, {"tokens": [], "ner_tags": []}], auto)
    assert [spans_of(row) for row in rows] == [[[0, 1, "X"], [1, 2, "X"]], []]
    assert auto.report.schemes["f"].scheme == "IOB1"


def test_tags_may_come_after_records_of_another_form(reading):
    auto = reading()
    rows = rows_of([{"tokens": ["c"], "entities": []}, {"tokens": ["a", "b"], "ner_tags": ["I-X", "B-X"]}], auto)
    assert [spans_of(row) for row in rows] == [[], [[0, 1, "X"], [1, 2, "X"]]]
    assert auto.report.schemes["f"].scheme == "IOB1"


def test_a_text_without_words_is_a_row_without_words(reading):
    assert rows_of([{"text": " \n", "entities": []}], reading())[0]["tokens"] == []


def test_hyphens_in_raw_text_follow_the_option(reading):
    record = {"text": "IL-2-bound", "entities": [[0, 4, "DNA"]]}
    assert spans_of(rows_of([record], reading(split_hyphens=True))[0]) == [[0, 3, "DNA"]]
    with pytest.raises(ValueError, match="misaligned"):
        rows_of([record], reading())


WORDS = ["Lake", "Tarn", "is"]
LAKE = {"start": 0, "end": 2, "label": "LOC"}


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({"tokens": WORDS, "ner_tags": ["B-LOC", "I-LOC", "O"], "entities": []}, "ner_tags"),
        ({"tokens": WORDS, "ner_tags": ["B-LOC", "O", "O"], "entities": [LAKE]}, "ner_tags"),
        ({"tokens": WORDS, "ner_tags": ["B-PER", "I-PER", "O"], "entities": [LAKE]}, "ner_tags"),
        ({"tokens": WORDS, "ner_tags": ["O", "O", "O"], "entities": [LAKE]}, "ner_tags"),
        ({"tokens": WORDS, "labels": ["B-LOC", "I-LOC", "O"], "entities": []}, "labels"),
        ({"tokens": WORDS, "tags": ["B-LOC", "I-LOC", "O"], "labels": ["O", "O", "O"]}, "labels"),
        ({"tokenized_text": WORDS, "ner": [], "ner_tags": ["B-LOC", "I-LOC", "O"]}, "ner_tags"),
        ({"tokens": WORDS, "entities": [LAKE], "tokenized_text": WORDS, "ner": [[0, 2, "LOC"]]}, "ner"),
        ({"tokens": WORDS, "entities": [LAKE], "tokenized_text": ["Lake"], "ner": [[0, 1, "LOC"]]}, "tokenized_text"),
    ],
)
def test_two_fields_that_contradict_each_other_are_an_error_of_their_line(record, field, reading):
    with pytest.raises(ValueError, match=rf"^f, line 1: {field} is .*\(two truths\); allowed: ") as error:
        rows_of([record], reading())
    assert "left out" in str(error.value) or "one of both" in str(error.value)
    lenient = reading(on_error="drop")
    assert rows_of([record, {"tokens": ["b"], "entities": []}], lenient)[0]["tokens"] == ["b"]
    assert lenient.report.counts == {"dropped, two truths": 1}


@pytest.mark.parametrize(
    "record",
    [
        {"tokens": WORDS, "ner_tags": ["B-LOC", "I-LOC", "O"], "entities": [LAKE]},
        {"tokens": WORDS, "ner_tags": ["O", "O", "O"], "entities": []},
        {"tokens": WORDS, "ner_tags": None, "entities": [LAKE]},
        {"tokens": WORDS, "entities": [LAKE], "tokenized_text": WORDS, "ner": [[0, 1, "LOC"]]},
    ],
)
def test_two_fields_that_agree_are_read(record, reading):
    strict = reading(scheme="IOB2")
    assert spans_of(rows_of([record], strict)[0]) in ([[0, 2, "LOC"]], [])
    assert strict.report.counts == {}


def test_a_surface_beside_words_is_compared(reading):
    record = {"tokens": ["Ana", "met", "Bo"], "entities": [{"start": 0, "end": 1, "label": "PER", "text": "Bo"}]}
    with pytest.raises(ValueError, match=r"entities\[0\].text is 'Bo' \(surface\); allowed: 'Ana', as the"):
        rows_of([record], reading())


@pytest.mark.parametrize(
    ("text", "start", "surface", "hint"),
    [
        ("Zo\u00eb", 0, "Zoe\u0308", "differ only in Unicode's normal form"),
        ("Noe\u0308l met Ana", 9, "Ana", "the offsets count the text in Unicode's normal form NFC"),
        ("No\u00ebl met Ana", 10, "Ana", "the offsets count the text in Unicode's normal form NFD"),
    ],
)
def test_a_surface_in_another_normal_form_is_named_so(text, start, surface, hint, reading):
    entity = {"start": start, "end": start + 3, "label": "PER", "text": surface}
    with pytest.raises(ValueError, match=rf"\((surface|range)\).*{hint}"):
        rows_of([{"text": text, "entities": [entity]}], reading())


def test_an_empty_word_keeps_its_place_and_is_counted(reading):
    counted = reading()
    record = {"tokens": ["Ana", "", "met", "Bo"], "entities": [[3, 4, "PER"]]}
    tagged = {"tokens": ["", "Bo"], "ner_tags": ["O", "B-PER"]}
    rows = rows_of([record, tagged, {"text": "a", "entities": []}], counted)
    assert [row["tokens"] for row in rows] == [record["tokens"], tagged["tokens"], ["a"]]
    assert [spans_of(row) for row in rows] == [[[3, 4, "PER"]], [[1, 2, "PER"]], []]
    assert counted.report.counts == {"kept, empty word": 2}
    assert counted.report.examples["kept, empty word"] == ["f, line 1: word 1", "f, line 2: word 0"]

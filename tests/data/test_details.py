"""What rows keep beside their words."""

from hf_spanner.data.formats.json_forms import form_rows


def rows_of(records, reading):
    return list(form_rows([(f"f, line {line}", record) for line, record in enumerate(records)], "f", reading))


def test_a_prediction_keeps_its_text_and_scores(reading):
    entities = [{"start": 0, "end": 9, "label": "LOC", "score": 0.75, "text": "Lake Tarn"}]
    (row,) = rows_of([{"text": "Lake Tarn.", "entities": entities}], reading(details=True))
    assert row["entities"] == [{"start": 0, "end": 2, "label": "LOC", "score": 0.75}]
    assert (row["text"], row["offsets"]) == ("Lake Tarn.", [(0, 4), (5, 9), (9, 10)])


def test_a_prediction_on_words_keeps_its_scores(reading):
    record = {"tokens": ["Lake", "Tarn"], "entities": [{"start": 0, "end": 2, "label": "LOC", "score": 1}]}
    (row,) = rows_of([record], reading(details=True))
    assert row["entities"][0]["score"] == 1.0
    assert "text" not in row


def test_characters_beside_tokens_keep_their_scores(reading):
    record = {"text": "Lake Tarn", "tokens": ["Lake", "Tarn"]}
    entity = {"start": 5, "end": 9, "label": "X", "score": 0.5, "text": "Tarn"}
    (row,) = rows_of([record | {"entities": [entity]}], reading(details=True))
    assert row["entities"] == [{"start": 1, "end": 2, "label": "X", "score": 0.5}]


def test_a_text_that_is_not_that_of_the_words_is_left_out_and_counted(reading):
    lenient = reading(details=True)
    (row,) = rows_of([{"text": "Other", "tokens": ["Ana"], "entities": []}], lenient)
    assert "text" not in row
    assert lenient.report.counts == {"dropped, text whose words are not the tokens": 1}

"""Label Studio's files, written by Label Studio, and tasks that it took and gave back."""

import json
from xml.etree import ElementTree

import pytest

from hf_spanner.data.formats.label_studio import labeling_interface, min_rows, task_rows
from hf_spanner.data.policy import ReadReport
from hf_spanner.data.readers import read_rows
from hf_spanner.data.writers import save_rows

ROWS = [
    [("PER", "Ana Holt"), ("PER", "Bo"), ("LOC", "Oslo")],
    [("ORG", "The University of New York"), ("LOC", "New York"), ("LOC", "Oslo")],
]
ONE = [("PER", "Mira Stone"), ("ORG", "the Bank of Oslo")]
TWO = [("PER", "Mira Stone"), ("ORG", "Bank of Oslo"), ("LOC", "Oslo")]


@pytest.mark.parametrize("name", ["label_studio.json", "label_studio_min.json"])
@pytest.mark.parametrize(("annotator", "third"), [(2, TWO), ("majority", ONE[:1])])
def test_an_export_with_two_annotators_wants_a_choice(name, annotator, third, tool_files, surfaces):
    with pytest.raises(ValueError, match=r"task 3: annotators is \['\d', '\d'\] \(annotators\)"):
        list(read_rows(tool_files / name))
    rows = surfaces(read_rows(tool_files / name, annotator=annotator))
    assert rows == ([third] if annotator == 2 else [*ROWS, third, []])


def test_what_an_export_holds_beside_spans_is_counted(tool_files):
    report = ReadReport()
    rows = list(read_rows(tool_files / "label_studio.json", annotator="first", report=report))
    assert [row["document"] for row in rows] == ["d1", "d1", "d2", None]
    assert [row["id"] for row in rows] == ["1", "2", "3", "4"]
    assert report.counts == {
        "skipped, relation of Label Studio": 1,
        "skipped, choices of Label Studio": 1,
        "skipped, annotation of another annotator": 1,
        "skipped, cancelled annotation": 1,
        "dropped, task without annotation": 1,
    }
    assert next(iter(report.formats.values())).startswith("Label Studio's JSON, by data, annotations in ")


def test_the_raw_text_is_kept_with_its_line_end(tool_files):
    row = list(read_rows(tool_files / "label_studio.json", annotator="first", details=True))[1]
    assert row["text"] == "\U0001f600 The University of\nNew York opened in Oslo."
    assert [row["text"][start:end] for start, end in row["offsets"]] == row["tokens"]


def test_tasks_that_the_tool_took_come_back_with_words_names_and_scores(tool_files):
    rows = list(read_rows(tool_files / "label_studio_predictions.json", annotator="predictions", details=True))
    assert (rows[0]["id"], rows[0]["document"]) == ("x1", "d1")
    assert rows[0]["entities"] == [
        {"start": 0, "end": 2, "label": "PER", "score": 0.9},
        {"start": 6, "end": 8, "label": "LOC", "score": 0.5},
    ]
    assert rows[1]["tokens"] == ["Lake", "Tarn", "\u00e9"]
    with pytest.raises(ValueError, match="nothing could be read"):
        list(read_rows(tool_files / "label_studio_predictions.json"))


def test_predictions_become_tasks_that_can_be_sorted_by_their_lowest_score(tmp_path):
    entities = [
        {"start": 0, "end": 1, "label": "PER", "score": 0.9},
        {"start": 2, "end": 3, "label": "LOC", "score": 0.4},
    ]
    row = {"id": "7", "tokens": ["Ana", "in", "Oslo"], "entities": entities, "text": "Ana in Oslo", "document": None}
    save_rows([row | {"offsets": [(0, 3), (4, 6), (7, 11)]}], tmp_path / "tasks.json", format="label-studio")
    (task,) = json.loads((tmp_path / "tasks.json").read_text(encoding="utf-8"))
    (prediction,) = task["predictions"]
    assert prediction["score"] == 0.4
    assert [(item["value"]["text"], item["score"]) for item in prediction["result"]] == [("Ana", 0.9), ("Oslo", 0.4)]
    assert task["data"] == {"text": "Ana in Oslo", "tokens": ["Ana", "in", "Oslo"], "id": "7"}


def test_the_interface_names_the_tags_of_the_tasks():
    tree = ElementTree.fromstring(labeling_interface(['A & "B"', "C"]))
    labels = tree.find("Labels")
    assert labels is not None
    assert [label.get("value") for label in labels] == ['A & "B"', "C"]
    assert (labels.get("name"), labels.get("toName")) == ("label", "text")
    text = tree.find("Text")
    assert text is not None
    assert (text.get("name"), text.get("value")) == ("text", "$text")


def region(start, end, text, *labels, kind="labels", tag="label"):
    return {"type": kind, "from_name": tag, "value": {"start": start, "end": end, "text": text, kind: list(labels)}}


def task(*result, **data):
    return {"id": 1, "data": data, "annotations": [{"result": list(result)}]}


def test_old_exports_that_count_units_of_utf_16_are_read_by_their_surfaces(placed, reading, surfaces):
    strict = reading()
    records = placed(task(region(3, 6, "Ana", "PER"), text="\U0001f600 Ana met Bo"))
    assert surfaces(task_rows(records, "f", strict)) == [[("PER", "Ana")]]
    assert strict.report.counts == {"changed, offsets in units of UTF-16 to characters": 1}


def test_only_escaped_line_ends_are_unescaped(placed, reading, surfaces):
    record = task(region(0, 3, r"\nb", "X"), region(4, 7, r"a\nc", "Y"), text="\\nb a\nc")
    assert surfaces(task_rows(placed(record), "f", reading())) == [[("X", "\\ nb"), ("Y", "a c")]]


def test_a_region_may_have_two_labels_and_a_task_several_texts(placed, reading, surfaces):
    records = placed(task(region(0, 3, "Ana", "PER", "X"), title="Bo left", body="Ana came"))
    assert surfaces(task_rows(records, "f", reading())) == [[("PER", "Ana"), ("X", "Ana")]]


def test_texts_without_entities_are_told_by_later_tasks(placed, reading):
    ana, first, second = region(0, 3, "Ana", "PER"), {"text": "x.org", "body": "No."}, {"text": "y", "body": "Ana left"}
    records = [{"id": 1, **first}, {"id": 2, **second, "label": [ana["value"]]}]
    for rows, given in ((task_rows, [task(**first), task(ana, **second)]), (min_rows, records)):
        assert [row["tokens"][0] for row in rows(placed(*given), "f", reading())] == ["No", "Ana"]


def test_a_layer_is_taken_and_the_others_are_counted(placed, reading, surfaces):
    result = (region(0, 3, "Ana", "PER"), region(4, 8, "left", "VERB", tag="events"))
    chosen = reading(layer="events")
    assert surfaces(task_rows(placed(task(*result, text="Ana left")), "f", chosen)) == [[("VERB", "left")]]
    assert chosen.report.counts == {"skipped, layer label": 1}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"data": 5, "annotations": []}, "data is 5"),
        (task(text=5), r"data is \['text'\] \(form\)"),
        (task(a="x.org", b="Bo left"), r"data is .* \(several texts\)"),
        (task(region(0, 3, "Bo", "PER"), text="Ana"), r"surface is 'Bo' \(surface\); allowed: 'Ana'"),
        (task(region(0, 9, "Ana", "PER"), text="Ana"), r"annotations\[0\]\.result\[0\]\.value.*\(range\)"),
        (task(region(0, 3, "Ana"), text="Ana"), r"label is None|label is \[\]"),
        (task(region("/p[1]/text()", 3, "Ana", "X", kind="hypertextlabels"), text="Ana"), "offsets in a plain text"),
        ({"id": 1, "data": {"text": "a"}, "annotations": [3]}, "a snapshot of the project"),
    ],
)
def test_malformed_tasks_are_refused_or_dropped(record, message, placed, reading, surfaces):
    with pytest.raises(ValueError, match=message):
        list(task_rows(placed(record), "f", reading()))
    lenient = reading(on_error="drop")
    fine = task(region(0, 3, "Ana", "PER"), text="Ana")
    assert surfaces(task_rows(placed(record, fine), "f", lenient))[-1] == [("PER", "Ana")]
    assert sum(lenient.report.counts.values()) >= 1

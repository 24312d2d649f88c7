"""The report: it is self-contained and escaped, shows entities with their labels as text, and values at thresholds."""

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hf_spanner.analysis.errors import Error
from hf_spanner.analysis.html_report import (
    Picture,
    Section,
    Table,
    error_example,
    group_table,
    values_at,
    write_report,
)
from hf_spanner.metrics.span_ner.curves import precision_recall_curve

VOID = {"meta", "img"}
WORDS = ["the", "<b>", "&", "University", "of", "New", "York", "opened", "today"]


class Tags(HTMLParser):
    """Collects tags with their attributes and all text, and checks that the tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def parsed(tmp_path: Path) -> Tags:
    """A report with a picture, a table and an example."""
    predicted, gold = (0, 3, 5, "ORG"), (0, 3, 7, "<LOC>")
    error = Error("wrong_boundary_and_label", predicted, gold)
    example = error_example(error, WORDS, "row 1", ["<LOC>", "ORG"], {predicted: 0.875})
    section = Section(
        "Heading & more",
        "Text.",
        [Picture("one", b"png bytes", 'a "picture"')],
        [Table("Table", ["name", "value"], [["<i>", "1"]])],
        {"missed": [example]},
    )
    path = write_report(tmp_path / "new", title="T", facts={"Model": "a<b"}, sections=[section], scores={"f1": 0.5})
    assert path == tmp_path / "new" / "report.html"
    tags = Tags()
    tags.feed(path.read_text(encoding="utf-8"))
    assert tags.open == []
    return tags


def test_the_folder_holds_report_pictures_and_scores(parsed: Tags, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    assert sorted(path.name for path in folder.iterdir()) == ["one.png", "report.html", "scores.json"]
    assert (folder / "one.png").read_bytes() == b"png bytes"
    assert json.loads((folder / "scores.json").read_text(encoding="utf-8")) == {"f1": 0.5}


def test_pictures_are_embedded_and_nothing_is_fetched(parsed: Tags, tmp_path: Path) -> None:
    (image,) = [attributes for tag, attributes in parsed.tags if tag == "img"]
    assert image["src"] == "data:image/png;base64," + base64.b64encode(b"png bytes").decode()
    assert image["alt"] == 'a "picture"'
    assert not {tag for tag, _ in parsed.tags} & {"script", "link", "iframe"}
    references = [attributes[name] for _, attributes in parsed.tags for name in ("src", "href") if name in attributes]
    assert all(str(reference).startswith(("data:", "#")) for reference in references)
    assert not re.search(r"url\(|@import", (tmp_path / "new" / "report.html").read_text(encoding="utf-8"))


def test_it_fits_a_phone(parsed: Tags) -> None:
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in parsed.tags


def test_what_comes_from_data_is_escaped(parsed: Tags) -> None:
    tags = [tag for tag, _ in parsed.tags]
    assert not {"i", "b"} & set(tags)
    assert "<b> &" in parsed.text
    assert "a<b" in parsed.text


def test_entities_have_label_and_side_as_text(parsed: Tags) -> None:
    text = " ".join(parsed.text.split())
    assert "gold: the <b> & University of New York <LOC> opened today" in text
    assert "predicted: the <b> & University of ORG 0.88 New York opened today" in text
    styles = [str(attributes["style"]) for tag, attributes in parsed.tags if tag == "bdi"]
    assert [re.findall(r"rgba\((\d+),", style) for style in styles] == [["0"], ["213"]]


def test_context_is_cut_with_a_sign() -> None:
    words = [f"w{place}" for place in range(40)]
    example = error_example(Error("missed", None, (0, 20, 21, "A")), words, "row 1", ["A"], {})
    (mark,) = example.marks
    (entity,) = mark.view.entities
    assert (mark.side, mark.view.text[entity.start : entity.end], entity.score) == ("gold", "w20", None)
    assert mark.view.text.split() == ["…", *words[8:33], "…"]


def test_values_at_thresholds_worked_by_hand() -> None:
    """There are two gold spans; 0.9 is right, 0.5 wrong and 0.4 right; 0.95 keeps nothing and has no precision."""
    curve = precision_recall_curve([0.9, 0.5, 0.4], [True, False, True], 2)
    values = values_at(curve, [0.0, 0.4, 0.45, 0.9, 0.95])
    assert [(entry["threshold"], entry["precision"], entry["recall"]) for entry in values] == [
        (0.0, pytest.approx(2 / 3), 1.0),
        (0.4, pytest.approx(2 / 3), 1.0),
        (0.45, 0.5, 0.5),
        (0.9, 1.0, 0.5),
    ]
    assert values_at(precision_recall_curve([], [], 2), [0.0]) == []


def test_table_of_groups() -> None:
    scores = {"precision": 0.5, "recall": 1 / 3, "f1": 0.4, "num_gold": 1500, "num_predicted": 2, "num_correct": 1}
    table = group_table("label", {"A": scores})
    assert table.header == ["label", "precision", "recall", "F1", "gold", "predicted", "right"]
    assert table.rows == [["A", "50.0", "33.3", "40.0", "1,500", "2", "1"]]

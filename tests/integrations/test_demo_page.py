"""What the page of the demo shows, and the page itself where Gradio is installed."""

import csv
import re
from base64 import b64decode
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest

from hf_spanner import EntityView, SpanNERPipeline
from hf_spanner.integrations.demo_page import COLUMNS, MAX_CHARACTERS, Demo, make_page, saving_link

TEXT = "The University of New York opened in Oslo"
PROMISES = {
    "kind": "temperature",
    "all": {"temperature": 1.0},
    "per_label": {},
    "fitted_on": {"name": "dev", "num_rows": 9, "fingerprint": "f"},
    "promises": {
        "delta": 0.1,
        "decoding": {"overlap": "nested"},
        "precision": [{"target": 0.9, "all": 0.43, "per_label": {}}],
        "recall": [],
    },
}


@pytest.fixture
def pipelines(random_tagger: Callable[..., SpanNERPipeline]) -> dict[str, SpanNERPipeline]:
    """One that promises a precision and has nested entities, and another that does not."""
    promising = random_tagger("boundary_smoothing", overlap="nested")
    promising.model.config.calibration = PROMISES
    return {"promising": promising, "other": random_tagger("bopn")}


def table_of(name: str, entities: list[dict[str, Any]]) -> list[list[Any]]:
    return [
        [entity["word"], entity["entity_group"], round(entity["score"], 4), entity["start"], entity["end"], name]
        for entity in entities
    ]


@pytest.mark.parametrize(
    ("overlap", "cut", "settings"),
    [
        ("nested", "own", {}),
        ("flat", "own", {"overlap": "flat"}),
        ("nested", "threshold", {"threshold": 0.44}),
        ("nested", "min_precision", {"min_precision": 0.85}),
    ],
)
def test_the_choices_of_the_page_are_settings_of_the_pipeline(
    overlap: Any, cut: str, settings: dict[str, Any], pipelines: dict[str, SpanNERPipeline]
) -> None:
    ner = pipelines["promising"]
    found = Demo({"m": ner}).found(TEXT, overlap, cut, 0.44, 0.85)
    entities = ner(TEXT, **settings)
    assert found.pictures == [EntityView(TEXT, entities, labels=ner.model.config.label2id).to_html()]
    assert found.table == table_of("m", entities)
    assert found.link == saving_link(found.table)
    assert len(entities) < len(ner(TEXT, threshold=0.0)) or cut == "own"


def test_models_stand_side_by_side_in_colours_of_all_their_labels(
    pipelines: dict[str, SpanNERPipeline], random_tagger: Callable[..., SpanNERPipeline]
) -> None:
    third = random_tagger("boundary_smoothing")
    third.model.config.id2label = {0: "ZOO", 1: "LOC", 2: "ORG"}
    third.model.config.label2id = {"ZOO": 0, "LOC": 1, "ORG": 2}
    demo = Demo(pipelines | {"third": third})
    assert demo.labels == ["LOC", "ORG", "PER", "ZOO"]
    found = demo.found(TEXT, "nested", "own", 0.5, 0.9)
    assert found.pictures[2] == EntityView(TEXT, third(TEXT, overlap="nested"), labels=demo.labels).to_html()
    assert [row[-1] for row in found.table] == sorted((row[-1] for row in found.table), key=list(demo.pipelines).index)
    assert {row[-1] for row in found.table} == {"promising", "other", "third"}


def test_what_a_model_cannot_promise_stands_in_place_of_its_picture(pipelines: dict[str, SpanNERPipeline]) -> None:
    demo = Demo(pipelines)
    assert demo.has_promises
    assert not Demo({"other": pipelines["other"]}).has_promises
    found = demo.found(TEXT, "nested", "min_precision", 0.5, 0.9)
    assert found.pictures[0].startswith("<div")
    assert "min_precision needs a calibration with stored promises, got 0.9" in found.pictures[1]
    assert {row[-1] for row in found.table} == {"promising"}


def test_a_refusal_cannot_bring_markup(pipelines: dict[str, SpanNERPipeline]) -> None:
    overlap: Any = "<script>"
    assert "&lt;script&gt;" in Demo({"m": pipelines["other"]}).found(TEXT, overlap, "own", 0.5, 0.9).pictures[0]


def test_the_link_holds_the_table() -> None:
    rows = [["m", 'said "no", twice\nover \u00e9', "ORG", 0.25, 0, 9], ["m", "", "A,B", 1.0, 3, 3]]
    content = re.search(r'base64,([^"]+)"', saving_link(rows))
    assert content is not None
    read = list(csv.reader(StringIO(b64decode(content[1]).decode("utf-8"), newline="")))
    assert read == [list(COLUMNS), *([str(value) for value in row] for row in rows)]


def test_a_text_beyond_the_limit_is_refused(pipelines: dict[str, SpanNERPipeline]) -> None:
    found = Demo(pipelines).found("a" * (MAX_CHARACTERS + 5), "flat", "own", 0.5, 0.9)
    problem = '<p role="alert">text must have at most 20,000 characters, got 20,005</p>'
    assert found == ([problem] * 2, [], saving_link([]))


@pytest.mark.slow
def test_the_page_answers_its_client(pipelines: dict[str, SpanNERPipeline]) -> None:
    pytest.importorskip("gradio")
    from gradio_client import Client

    page = make_page(pipelines)
    _, address, _ = page.launch(prevent_thread_lock=True, quiet=True)
    try:
        client = Client(address, verbose=False)
        for choices in (
            ("nested", "own", 0.5, 0.9),
            ("nested", "min_precision", 0.5, 0.9),
            ("flat", "threshold", 1, 1),
        ):
            first, second, table, link = client.predict(TEXT, *choices, api_name="/entities")
            found = Demo(pipelines).found(TEXT, *choices)
            assert [first, second, link] == [*found.pictures, found.link]
            assert table["headers"] == list(COLUMNS)
            assert table["data"] == found.table
    finally:
        page.close()

"""The model card: metadata that reads back, numbers equal to the scores, and no path of this machine."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from hf_spanner import METHODS, Recipe, SpanNERConfig
from hf_spanner.data.report import DataReport, data_report
from hf_spanner.metrics.span_ner.scoring import score_spans
from hf_spanner.training.model_card import (
    bin_table,
    data_name,
    label_table,
    limits,
    markdown_table,
    recipe_text,
    shareable,
    write_model_card,
)
from hf_spanner.training.recipe import plain_yaml

GOLD = [[{"start": 0, "end": 2, "label": "PER"}, {"start": 3, "end": 4, "label": "LOC"}], []]
FOUND = [
    [{"start": 0, "end": 2, "label": "PER", "score": 0.75}],
    [{"start": 1, "end": 2, "label": "A|B", "score": 0.5}],
]
ROWS = [{"tokens": ["a", "b", "c", "d"], "entities": GOLD[0]}, {"tokens": ["e", "f"], "entities": []}]


@pytest.fixture
def scores() -> dict[str, Any]:
    """Strict: 1 of 2 predicted and 1 of 2 gold spans are right. ECE: (|1 - 0.75| + |0 - 0.5|) / 2 = 0.375."""
    return score_spans(FOUND, GOLD)


@pytest.fixture
def make_recipe(tmp_path: Path) -> Callable[..., Recipe]:
    """A recipe whose data, encoder and output lie under `tmp_path`."""

    def make(*overrides: str, **values: Any) -> Recipe:
        values = {
            "method": "boundary_smoothing",
            "encoder": str(tmp_path / "encoders" / "small"),
            "data": {split: str(tmp_path / "conll2003" / f"{split}.jsonl") for split in ("train", "dev", "test")},
            "model": {"smoothing_epsilon": 0.2, "overlap": "nested"},
            "training": {"output_dir": str(tmp_path / "tiny-run"), "use_cpu": True, "learning_rate": 3.0e-5, "seed": 7},
        } | values
        path = tmp_path / "recipe.yaml"
        path.write_text(json.dumps(values), encoding="utf-8")
        return Recipe.from_yaml(path, overrides)

    return make


@pytest.fixture
def config() -> SpanNERConfig:
    return METHODS["boundary_smoothing"].config_class(id2label={0: "LOC", 1: "PER"}, overlap="nested")


@pytest.fixture
def report() -> DataReport:
    return data_report({"train": ROWS, "dev": ROWS, "test": ROWS})


@pytest.fixture
def card(
    make_recipe: Callable, config: SpanNERConfig, scores: dict[str, Any], report: DataReport, tmp_path: Path
) -> ModelCard:
    return ModelCard.load(write_model_card(tmp_path, make_recipe(), config, scores, report, ["one note", "another"]))


def test_metadata_reads_back_complete(card: ModelCard) -> None:
    data = card.data
    assert data.library_name == "transformers"
    assert data.pipeline_tag == "token-classification"
    assert {"span-ner", "nested-ner", "custom_code", "boundary_smoothing"} <= set(data.tags)
    assert data.metrics == ["f1", "precision", "recall"]
    assert data.model_name == "tiny-run"
    assert data.license is None
    assert data.language is None
    assert data.base_model is None


def test_results_equal_the_scores(card: ModelCard, scores: dict[str, Any]) -> None:
    results = {result.metric_type: result for result in card.data.eval_results}
    expected = {"f1": "overall_f1", "precision": "overall_precision", "recall": "overall_recall", "ece": "overall_ece"}
    assert {kind: result.metric_value for kind, result in results.items()} == {
        kind: scores[name] for kind, name in expected.items()
    }
    assert results["ece"].metric_value == 0.375
    assert {result.dataset_name for result in results.values()} == {"conll2003"}
    assert {result.dataset_split for result in results.values()} == {"test"}


def test_text_holds_labels_scores_data_recipe_limits_and_use(card: ModelCard, report: DataReport) -> None:
    text = card.text
    assert "Labels: `LOC`, `PER`." in text
    assert "| all (micro)            |     50.00 |  50.00 |  50.00 |    2 |         2 |" in text
    assert "Expected calibration error over 10 bins: 0.3750." in text
    assert str(report) in text
    assert "\n* one note\n* another\n" in text
    assert 'pipeline("span-ner", model="FOLDER", trust_remote_code=True)' in text
    assert "One label a span" in text
    assert "Boundary Smoothing (Zhu and Li 2022)" in text
    assert re.search(r"hf_spanner \d.*, python 3\.\d+.*, torch \d.*, transformers 5.*, datasets \d", text)


def test_recipe_in_the_card_is_yaml_with_what_matters(card: ModelCard) -> None:
    recipe = plain_yaml(card.text.split("```yaml\n")[1].split("```")[0], "card")
    assert recipe["encoder"] == "encoders/small"
    assert recipe["data"]["test"] == "conll2003/test.jsonl"
    assert recipe["model"] == {"smoothing_epsilon": 0.2, "overlap": "nested"}
    assert recipe["training"]["learning_rate"] == 3.0e-5
    assert recipe["training"]["head_learning_rate"] == 2.0e-3
    assert recipe["training"]["seed"] == 7
    assert not {"output_dir", "use_cpu", "report_to", "hub_token"} & set(recipe["training"])


def test_what_the_card_says_of_how_the_encoder_was_loaded(make_recipe: Callable[..., Recipe]) -> None:
    """Its revision and float type belong to the run; a token and a folder of this machine do not."""
    options = {"revision": "v1", "dtype": "bfloat16", "token": "secret", "cache_dir": "/somewhere"}
    assert plain_yaml(recipe_text(make_recipe(encoder_options=options)), "card")["encoder_options"] == {
        "revision": "v1",
        "dtype": "bfloat16",
    }
    assert "encoder_options" not in recipe_text(make_recipe())


def test_nothing_is_left_open_and_no_path_of_this_machine_stays(card: ModelCard, tmp_path: Path) -> None:
    content = str(card)
    assert "More information" not in content
    assert "None" not in content
    assert "{{" not in content
    assert str(tmp_path) not in content
    assert not re.search(r"(?<![\w.:/>])/\w+/", content)


def test_reader_options_and_calibration_of_the_recipe_stand_in_the_card(
    make_recipe: Callable, config: SpanNERConfig, scores: dict[str, Any], report: DataReport, tmp_path: Path
) -> None:
    recipe = make_recipe("data.scheme=IOB1", "data.format=conll", "training.bf16=true", "calibration=platt")
    text = ModelCard.load(write_model_card(tmp_path, recipe, config, scores, report)).text
    written = plain_yaml(text.split("```yaml\n")[1].split("```")[0], "card")
    assert written["data"]["scheme"] == "IOB1"
    assert written["data"]["format"] == "conll"
    assert written["training"]["bf16"] is True
    assert written["calibration"] == "platt"


def test_names_of_the_hub_and_the_papers_number_are_kept(
    make_recipe: Callable, config: SpanNERConfig, scores: dict[str, Any], report: DataReport, tmp_path: Path
) -> None:
    recipe = make_recipe(encoder="some/encoder", data={"source": "org/corpus"}, paper={"f1": 93.65, "where": "Table 2"})
    card = ModelCard.load(write_model_card(tmp_path, recipe, config, scores, report))
    assert card.data.base_model == "some/encoder"
    assert {result.dataset_type for result in card.data.eval_results} == {"org/corpus"}
    assert "F1 93.65 (Table 2)" in card.text


def test_label_table_has_a_line_for_each_label(scores: dict[str, Any]) -> None:
    lines = label_table(scores).splitlines()
    assert lines[2].startswith("| A\\|B ")
    assert [cell.strip() for cell in lines[4].split("|")[1:-1]] == ["PER", "100.00", "100.00", "100.00", "1", "1"]
    assert len({len(line) for line in lines}) == 1
    assert len(lines) == 2 + 3 + 3


def test_bin_table_shows_the_bins_that_hold_spans(scores: dict[str, Any]) -> None:
    lines = bin_table(scores["reliability"]).splitlines()
    assert [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]] == [
        ["0.40 to 0.50", "1", "0.500", "0.000"],
        ["0.70 to 0.80", "1", "0.750", "1.000"],
    ]


def test_a_table_without_rows_is_still_a_table() -> None:
    assert markdown_table(["a", "b"], []) == "| a   |   b |\n| --- | --: |"


def test_limits_follow_the_configuration() -> None:
    make = METHODS["locate_and_label"].config_class

    def lines(*, knows_documents: bool = True, **fields: Any) -> list[str]:
        return limits(make(id2label={0: "A"}, **fields), knows_documents=knows_documents)

    assert "do not overlap" in lines(overlap="flat")[0]
    assert "may lie inside" in lines(overlap="nested")[0]
    assert not any("One label" in line for line in lines(multi_label=True))
    assert any("up to 3 neighbouring" in line for line in lines(context_sentences=3))
    alone = lines(context_sentences=3, knows_documents=False)
    assert any("named no document" in line for line in alone)
    assert not any("up to 3 neighbouring" in line for line in alone)
    assert not any("document" in line for line in lines(knows_documents=False))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("data/a.jsonl", "data/a.jsonl"),
        ("/home/me/data/a.jsonl", "data/a.jsonl"),
        ("/a.jsonl", "a.jsonl"),
        ("C:\\me\\data\\a.jsonl", "data/a.jsonl"),
        ("~/data/a.jsonl", "data/a.jsonl"),
        ("package:name/folder", "package:name/folder"),
        ("org/name", "org/name"),
        (None, None),
    ],
)
def test_a_path_tells_nothing_of_this_machine(value: str | None, expected: str | None) -> None:
    assert shareable(value) == expected


def test_a_label_of_any_characters_leaves_the_card_whole(
    make_recipe: Callable, report: DataReport, tmp_path: Path
) -> None:
    """Line ends, bars and backticks neither end a line of a table nor a word of code."""
    labels = {0: "A\nB", 1: "C|D\r", 2: "`E`\u2028"}
    config = METHODS["boundary_smoothing"].config_class(id2label=labels)
    gold = [[{"start": place, "end": place + 1, "label": label} for place, label in labels.items()]]
    rows = [{"tokens": ["a", "b", "c"], "entities": gold[0]}]
    scores = score_spans([[entity | {"score": 0.5} for entity in gold[0]]], gold)
    text = write_model_card(tmp_path, make_recipe(), config, scores, data_report({"train": rows})).read_text("utf-8")
    assert r"Labels: `A\nB`, `C|D\r`, `` `E`\u2028 ``." in text.splitlines()
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {5, 7}
    assert [line.split("|")[1].strip() for line in table if r"\nB" in line] == [r"A\nB"]
    assert ModelCard.load(tmp_path / "README.md").data.library_name == "transformers"


@pytest.mark.parametrize(
    ("test", "name"),
    [
        ("test.jsonl", "data without a name"),
        ("data/test.conll", "data"),
        ("/home/somebody/test/test.conll", "data without a name"),
        ("/home/somebody/test/part.conll", "part"),
        ("test/part.jsonl", "part"),
        ("corpus/test.jsonl", "corpus"),
        ("corpus/dev/test/test.jsonl.gz", "corpus"),
        ("weather.test.conll", "weather"),
    ],
)
def test_the_corpus_is_never_named_after_a_split(make_recipe: Callable, test: str, name: str) -> None:
    assert data_name(make_recipe(data={"train": "train.jsonl", "dev": "dev.jsonl", "test": test})) == name
    assert data_name(make_recipe(data={"source": "./corpus/test"})) == "corpus"

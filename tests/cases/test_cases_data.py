"""Cases D: what broke readers of column files, tags, JSON lines and BRAT folders."""

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from method_facts import facts_of

from hf_spanner import SpanNERModel
from hf_spanner.data.policy import ReadReport
from hf_spanner.data.readers import read_rows
from hf_spanner.data.report import data_report
from hf_spanner.data.schema import label_set
from hf_spanner.data.tags import spans_to_tags, tags_to_spans
from hf_spanner.metrics.span_ner.scoring import score_spans

Case = dict[str, Any]
Row = dict[str, Any]


def path_of(item: Case, folder: Path) -> Path:
    return folder / Path(item["file"]["path"]).name


def spans_of(row: Row) -> list[list[Any]]:
    return [[entity["start"], entity["end"], entity["label"]] for entity in row["entities"]]


def surfaces_of(row: Row) -> list[tuple[str, str]]:
    """The words of each entity, joined by blanks, with its label."""
    return [(" ".join(row["tokens"][start:end]), label) for start, end, label in spans_of(row)]


def assert_mentions(error: pytest.ExceptionInfo[Exception], texts: list[str]) -> None:
    assert [text for text in texts if text.lower() not in str(error.value).lower()] == []


@pytest.mark.parametrize("case", ["D-01", "D-03", "D-04", "D-05"], indirect=True)
def test_column_files(case: Case, case_files: Path) -> None:
    """Where several answers are allowed, ours is the first: the scheme is guessed, and the guess is right."""
    for item, expected in zip(case["input"]["items"], case["expected"]["items"], strict=True):
        if item.get("format", "conll") != "conll":
            continue
        path = path_of(item, case_files)
        options = {name: item[name] for name in ("scheme", "delimiter", "tag_column") if name in item}
        expected = expected.get("any_of", [expected])[0]
        if expected["outcome"] == "error":
            with pytest.raises(ValueError, match=path.name) as error:
                list(read_rows(path, **options))
            assert_mentions(error, expected["mentions"])
            continue
        rows = list(read_rows(path, **options))
        for row, sentence in zip(rows, expected["sentences"], strict=True):
            assert (row["tokens"], spans_of(row)) == (sentence["tokens"], sentence["spans"])
            assert row["document"] == (f"{path.name}-{sentence['document']}" if "document" in sentence else None)


@pytest.mark.parametrize("case", ["D-02"], indirect=True)
def test_ill_formed_sequences_under_the_three_policies(case: Case) -> None:
    for item, expected in zip(case["input"]["items"], case["expected"]["items"], strict=True):
        tags, scheme = item["tags"], item["scheme"]
        for policy in ("repair", "drop"):
            spans = tags_to_spans(tags, scheme=scheme, policy=policy)
            assert [list(span) for span in spans] == expected[policy]
        if expected["error"] == "error":
            with pytest.raises(ValueError, match="allowed here in"):
                tags_to_spans(tags, scheme=scheme)
        else:
            assert [list(span) for span in tags_to_spans(tags, scheme=scheme)] == expected["repair"]


@pytest.mark.parametrize("case", ["D-05"], indirect=True)
def test_hidden_line_separators_stay_inside_a_text(case: Case, case_files: Path) -> None:
    path, expected = path_of(case["input"]["items"][1], case_files), case["expected"]["items"][1]
    texts = [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").split("\n") if line]
    rows = list(read_rows(path))
    assert len(rows) == expected["n_examples"]
    for row, text, entities in zip(rows, texts, expected["entities"], strict=True):
        assert surfaces_of(row) == [(" ".join(text[start:end].split()), label) for start, end, label in entities]


@pytest.mark.parametrize("case", ["D-06"], indirect=True)
def test_doubtful_character_spans(case: Case, case_files: Path, tmp_path: Path) -> None:
    """Each line is read alone, in its place; then all are read with what is wrong dropped and counted."""
    path = path_of(case["input"]["items"][0], case_files)
    lines = path.read_bytes().split(b"\n")[: len(case["expected"]["per_line"])]
    for place, (line, verdict) in enumerate(zip(lines, case["expected"]["per_line"], strict=True)):
        line_path, report = tmp_path / "one.jsonl", ReadReport()
        line_path.write_bytes(b"\n" * place + line)
        assert verdict["line"] == place + 1
        if verdict["verdict"] in ("ok", "trim"):
            (row,) = read_rows(line_path, report=report)
            surfaces = [json.loads(line)["text"][slice(*verdict["span"])]] if verdict["span"] else []
            assert [surface for surface, _ in surfaces_of(row)] == surfaces
            assert report.counts.total() == (verdict["verdict"] == "trim")
        else:
            reason = verdict.get("reason", "misaligned")
            with pytest.raises(ValueError, match=rf"one\.jsonl, line {place + 1}: .*\({reason}\)"):
                list(read_rows(line_path))
    report = ReadReport()
    rows = list(read_rows(path, on_error="drop", misaligned="widen", report=report))
    assert [[surface for surface, _ in surfaces_of(row)] for row in rows] == [
        *(["Ana"], [], [], ["Oslo"], [], [], [], ["Bo"], ["Bo"], [], [], [])
    ]
    assert report.counts == {
        "dropped, surface": 1,
        "dropped, range": 2,
        "dropped, empty": 2,
        "dropped, type": 1,
        "dropped, label": 1,
        "changed, misaligned entity widened to whole words": 1,
        "changed, blanks at the edges of an entity trimmed": 1,
    }


@pytest.mark.parametrize("case", ["D-07"], indirect=True)
def test_repeats_go_and_two_labels_on_one_span_stay(case: Case, case_files: Path) -> None:
    path, report = path_of(case["input"]["items"][0], case_files), ReadReport()
    (row,) = read_rows(path, report=report)
    text = json.loads(path.read_text(encoding="utf-8"))["text"]
    expected = case["expected"]["items"][0]
    assert surfaces_of(row) == [(text[start:end], label) for start, end, label in expected["entities"][0]]
    assert report.counts == {"dropped, repeated entity": expected["duplicates_removed"]}
    with pytest.raises(ValueError, match="spans") as error:
        spans_to_tags([tuple(span) for span in spans_of(row)], len(row["tokens"]), scheme="IOB2")
    assert_mentions(error, case["expected"]["to_iob2"]["mentions"])


@pytest.mark.parametrize("case", ["D-07"], indirect=True)
def test_methods_say_how_many_labels_of_one_span_they_lose(
    case: Case, case_files: Path, tiny_model: Callable[..., SpanNERModel], method: str
) -> None:
    """With one class a span a method loses one of them; with a grid for each label its output may hold both."""
    (row,) = read_rows(path_of(case["input"]["items"][0], case_files))
    labels = ("DNA", "LOC", "PROT")
    gold = [(start, end, labels.index(label)) for start, end, label in spans_of(row)]
    expected = case["expected"]["targets_single_label"]["conflicts_reported"]
    assert tiny_model(method, labels=labels, overlap="nested").unreachable(gold) == expected
    two_labels = facts_of(method).two_labels
    if two_labels is not None:
        model = tiny_model(method, labels=labels, overlap="nested", **two_labels)
        assert model.unreachable(gold) == case["expected"]["targets_per_label"]["conflicts_reported"]
        assert len(gold) == case["expected"]["targets_per_label"]["spans"]


@pytest.mark.parametrize("case", ["D-08"], indirect=True)
def test_brat_pairs(case: Case, case_files: Path) -> None:
    """Of the two answers that are allowed to offsets that do not fit Windows newlines, ours is the error."""
    first, second = case["expected"]["items"]
    for policy in case["input"]["policies"]:
        expected, report = first[policy], ReadReport()
        rows = read_rows(case_files / "d08_a.ann", discontinuous=policy, report=report)
        if expected.get("outcome") == "error":
            with pytest.raises(ValueError, match="discontinuous") as error:
                list(rows)
            assert_mentions(error, expected["mentions"])
            continue
        surfaces = [surface for row in rows for surface in surfaces_of(row)]
        assert surfaces == [(" ".join(text.split()), label) for _, _, label, text in expected["entities"]]
        verb = "dropped, discontinuous" if policy == "drop" else f"changed, discontinuous ({policy})"
        others = {name for name in report.counts if name.startswith(("skipped, ", "changed, parts joined"))}
        assert {name: report.counts[name] for name in report.counts.keys() - others} == {
            verb: expected.get("dropped", 1)
        }
        assert {"skipped, relation", "skipped, note", "skipped, attribute", "skipped, equivalence"} <= others
    with pytest.raises(ValueError, match=r"d08_b\.ann, line 2, .*Windows") as error:
        list(read_rows(case_files / "d08_b.ann"))
    assert_mentions(error, second["any_of"][0]["mentions"])


@pytest.mark.parametrize("case", ["D-09"], indirect=True)
def test_labels_that_differ_between_splits_or_by_a_slip(
    case: Case, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def row(*spans: list[Any]) -> Row:
        entities = [dict(zip(("start", "end", "label"), span, strict=True)) for span in spans]
        return {"tokens": list("abcde"), "entities": entities}

    data, expected = case["input"], case["expected"]
    train = [row([0, 1, label]) for label in data["train"]]
    assert label_set(train) == expected["train_model_labels"]
    assert caplog.records == []
    report = data_report({"train": train, "test": [row(*spans) for spans in data["test_gold"]]})
    assert list(report.splits["test"].unseen_labels) == expected["unseen_reported"]
    with caplog.at_level(logging.WARNING):
        path = tmp_path / "typos.jsonl"
        path.write_text("\n".join(json.dumps(row([0, 1, label])) for label in data["typos"]), encoding="utf-8")
        assert label_set(read_rows(path)) == ["LOC", "PER", "Per"]
    blanks, similar = (record.getMessage() for record in caplog.records)
    assert [repr(label) in blanks for label in expected["typos"]["edge_blanks"]] == [True]
    assert [str(group) in similar for group in expected["typos"]["near_duplicates"]] == [True]


@pytest.mark.parametrize("case", ["D-09"], indirect=True)
def test_a_label_unknown_to_the_model_counts_as_missed(case: Case) -> None:
    gold, predicted = (
        [[dict(zip(("start", "end", "label"), span, strict=True), score=0.5) for span in spans] for spans in side]
        for side in (case["input"]["test_gold"], case["input"]["test_pred"])
    )
    result, expected = score_spans(predicted, gold), case["expected"]["metric"]
    for prefix, side in (("overall", "micro"), ("macro", "macro")):
        for name, value in expected[side].items():
            assert result[f"{prefix}_{name}"] == pytest.approx(value, abs=1e-5)
    for label, scores in expected["per_label"].items():
        assert scores.items() <= result["per_label"][label].items()
    counts = [result["num_gold"], result["num_predicted"], result["num_correct"]]
    assert counts == [expected["n_gold"], expected["n_pred"], expected["n_correct"]]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["D-10"], indirect=True)
def test_a_big_file_is_streamed(case: Case, tmp_path: Path) -> None:
    expected, path = case["expected"], tmp_path / "big.conll"
    with path.open("w", encoding="utf-8") as file:
        for number in range(case["input"]["sentences"]):
            file.write(f"they O\nmet O\nOslo B-LOC\nagain{number} O\n. O\n\n")
    process = psutil.Process()
    before = highest = process.memory_info().rss
    start = time.perf_counter()
    rows = read_rows(path)
    row = next(rows)
    assert time.perf_counter() - start < expected["first_record_seconds_max"]
    counts = [1, len(row["tokens"]), len(row["entities"])]
    for row in rows:
        counts = [counts[0] + 1, counts[1] + len(row["tokens"]), counts[2] + len(row["entities"])]
        if counts[0] % 20_000 == 0:
            highest = max(highest, process.memory_info().rss)
    assert counts == [expected["n_sentences"], expected["n_tokens"], expected["n_entities"]]
    assert highest - before < expected["extra_rss_mib_max"] * 2**20

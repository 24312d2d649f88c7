"""The review command on a tiny saved model, and decisions on what it finds."""

import json
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace

import pytest
from transformers import AutoModel, AutoTokenizer

from hf_spanner import load_rows, read_rows
from hf_spanner.commands.review import Judgement, loosest, suggested_rows


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_from_a_model_to_a_corrected_corpus(
    program: Callable, saved_model: Path, rows: list, write_jsonl: Callable, tmp_path: Path, capsys
) -> None:
    data, folder = write_jsonl("rows.jsonl", rows), tmp_path / "review"
    options = ["--output", str(folder), "--error-rate", "0.05", "--lowest", "0.001"]
    program("review").main([str(saved_model), str(saved_model), str(data), *options])
    printed = capsys.readouterr().out
    suspects = lines(folder / "suspects.jsonl")
    assert f"{len(suspects)} suspects in " in printed
    assert len(suspects) > 5
    assert [record["rank"] for record in suspects] == list(range(1, len(suspects) + 1))
    probabilities = [record["probability"] for record in suspects]
    assert probabilities == sorted(probabilities, reverse=True)
    assert len((folder / "suspects.csv").read_text(encoding="utf-8").splitlines()) == len(suspects) + 1
    assert "wrong label" in (folder / "review.html").read_text(encoding="utf-8")

    tasks = list(read_rows(folder / "tasks.json", annotator="predictions", details=True))
    assert len(tasks) == len({record["row"] for record in suspects})
    first = suspects[0]
    assert tasks[0]["tokens"] == first["tokens"]

    decisions = write_jsonl("decisions.jsonl", [{**first, "decision": "accept"}, *suspects[1:]])
    corrected = tmp_path / "corrected.jsonl"
    program("review").main(["--apply", str(decisions), str(data), "--output", str(corrected)])
    assert f"1 changes in 1 rows, {len(suspects) - 1} of {len(suspects)} undecided" in capsys.readouterr().out
    before, after = load_rows(str(data)).to_list(), load_rows(str(corrected)).to_list()
    assert [number for number in range(len(rows)) if before[number] != after[number]] == [first["row"]]
    (change,) = lines(tmp_path / "corrected.jsonl.changes.jsonl")
    assert (change["before"], change["after"]) == (first["annotated"], first["suggested"])
    with pytest.raises(ValueError, match=r"corrected\.jsonl\.changes\.jsonl exists"):
        program("review").main(["--apply", str(decisions), str(data), "--output", str(corrected)])


def test_scores_are_taken_raw(
    program: Callable, saved_model: Path, rows: list, write_jsonl: Callable, tmp_path: Path
) -> None:
    data, suspects = write_jsonl("rows.jsonl", rows), []
    for temperature in (1.0, 3.0):
        model = copytree(saved_model, tmp_path / f"model{temperature}")
        path = model / "config.json"
        config = json.loads(path.read_text(encoding="utf-8")) | {"temperature": temperature}
        path.write_text(json.dumps(config), encoding="utf-8")
        folder = tmp_path / f"review{temperature}"
        program("review").main([str(model), str(data), "--output", str(folder), "--lowest", "0.001"])
        suspects.append(lines(folder / "suspects.jsonl"))
    assert suspects[0]
    assert suspects[0] == suspects[1]


def test_tasks_show_the_likelier_of_annotation_and_suggestion() -> None:
    entities = [{"start": start, "end": start + 1, "label": "PER"} for start in range(3)]
    rows = [{"tokens": list("abcd"), "entities": entities}, {"tokens": ["e"], "entities": []}]
    changes = [
        (0.9, 0, entities[0] | {"label": "LOC"}),
        (0.4, 1, None),
        (0.3, None, {"start": 3, "end": 4, "label": "LOC"}),
    ]
    records = [
        {
            "rank": rank,
            "row": 0,
            "probability": probability,
            "annotated": None if place is None else entities[place],
            "suggested": suggested,
        }
        for rank, (probability, place, suggested) in enumerate(changes, start=1)
    ]
    missed = {"rank": 4, "row": 1, "probability": 0.2, "annotated": None, "suggested": entities[0]}
    tasks = suggested_rows(rows, [*records, missed])
    assert tasks[0]["entities"] == [entities[0] | {"label": "LOC", "score": 0.9}, *entities[1:]]
    assert tasks[1]["entities"] == []


def test_several_labels_of_a_span_are_several_suggestions_where_a_judge_gives_them(
    program: Callable, write_jsonl: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty rows have both labels on their word, but for one that lacks the second."""
    both = [{"start": 0, "end": 1, "label": label} for label in "AB"]
    rows = [{"tokens": [f"w{number}", "x"], "entities": both[: 1 + (number > 0)]} for number in range(40)]
    answers = [[entity | {"score": 0.9} for entity in both] for _ in rows]
    judged = Judgement(rows, [answers], *loosest([SimpleNamespace(overlap="nested", multi_label=True)]), None, False)
    monkeypatch.setattr("hf_spanner.commands.review.predictions_of_models", lambda *_: judged)
    data = str(write_jsonl("rows.jsonl", rows))
    program("review").main([str(tmp_path), data, "--output", str(tmp_path / "review")])
    (suspect,) = lines(tmp_path / "review" / "suspects.jsonl")
    assert (suspect["row"], suspect["kind"], suspect["suggested"]["label"]) == (0, "missed_entity", "B")


def test_tasks_for_prodigy_and_a_known_rate(
    program: Callable, saved_model: Path, rows: list, write_jsonl: Callable, tmp_path: Path, capsys
) -> None:
    data, folder = write_jsonl("rows.jsonl", rows), tmp_path / "review"
    options = ["--tasks", "prodigy", "--error-rate", "0.3", "--output", str(folder)]
    program("review").main([str(saved_model), str(data), *options])
    assert "left out or changed: 30.0%" in capsys.readouterr().out
    assert all({"tokens", "spans"} <= task.keys() for task in lines(folder / "tasks.jsonl"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data.jsonl", "--output", "x"], "needs at least one model"),
        (["--apply", "d.jsonl", "model", "data.jsonl", "--output", "x"], "--apply takes only the data"),
        (["model", "data.jsonl", "--output", "x", "--lowest", "2"], "must lie in"),
    ],
)
def test_wrong_command_lines_are_refused_at_once(
    program: Callable, arguments: list[str], message: str, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit):
        program("review").main(arguments)
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_models_out_of_fold_find_a_planted_label(
    program: Callable, tiny_encoder: Path, write_jsonl: Callable, tmp_path: Path
) -> None:
    """Twenty documents say that Ana is a person and Oslo a place, but for one that calls Ana a place."""
    rows = [
        {
            "document": f"d{number}",
            "tokens": ["Ana", "met", "Bo", "in", "Oslo"],
            "entities": [
                {"start": 0, "end": 1, "label": "LOC" if number == 7 else "PER"},
                {"start": 4, "end": 5, "label": "LOC"},
            ],
        }
        for number in range(20)
    ]
    data = write_jsonl("rows.jsonl", rows)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"method: boundary_smoothing\nencoder: {tiny_encoder}\ndata: {{train: {data.name}}}\n"
        "model: {lstm_layers: 0}\n"
        "training: {num_train_epochs: 30, learning_rate: 1.0e-3, head_learning_rate: 1.0e-2, use_cpu: true}\n",
        encoding="utf-8",
    )
    folder = tmp_path / "review"
    program("review").main(["--folds", "2", str(recipe), str(data), "--output", str(folder)])
    first = lines(folder / "suspects.jsonl")[0]
    assert (first["kind"], first["row"], first["suggested"]["label"]) == ("wrong_label", 7, "PER")


def test_judges_that_split_words_unlike_each_other_are_refused(
    program: Callable, saved_model: Path, rows: list, write_jsonl: Callable, tmp_path: Path
) -> None:
    AutoModel.from_pretrained(saved_model, split_hyphens=True).save_pretrained(tmp_path / "other")
    AutoTokenizer.from_pretrained(saved_model).save_pretrained(tmp_path / "other")
    data = write_jsonl("rows.jsonl", rows)
    with pytest.raises(ValueError, match=r"must split words alike, got split_hyphens \[False, True\]"):
        program("review").main([str(saved_model), str(tmp_path / "other"), str(data), "--output", str(tmp_path / "x")])

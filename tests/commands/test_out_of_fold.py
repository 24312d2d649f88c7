"""Predictions out of fold: each row by the model of its fold, kept and taken up again."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hf_spanner import Recipe
from hf_spanner.commands import out_of_fold

ROWS: list[Any] = [
    {"tokens": [f"w{number}"], "document": f"d{number // 2}", "entities": [{"start": 0, "end": 1, "label": "A"}]}
    for number in range(8)
]


@pytest.fixture
def recipe(tiny_encoder: Path, tmp_path: Path) -> Recipe:
    path = tmp_path / "recipe.yaml"
    path.write_text(f"method: boundary_smoothing\nencoder: {tiny_encoder}\ndata: {{}}\n", encoding="utf-8")
    return Recipe.from_yaml(path)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The folds for which a model was trained; its answer is the number of the row as score."""
    folds: list[list[int]] = []

    def model(recipe: Recipe, rows: Any, fold: Sequence[int], labels: Sequence[str], output_dir: Path) -> Any:
        assert labels == ["A"]
        folds.append(list(fold))

        def answer(ner: Any, chosen: Sequence[Any], *_: Any) -> Any:
            assert [row["tokens"] for row in chosen] == [rows[number]["tokens"] for number in fold]
            return [[{"start": 0, "end": 1, "label": "A", "score": number / 10}] for number in fold]

        monkeypatch.setattr(out_of_fold, "predicted_entities", answer)
        monkeypatch.setattr(out_of_fold, "scored_spans", lambda *given: [*answer(*given)[:-1], []])

    monkeypatch.setattr(out_of_fold, "fold_model", model)
    return folds


def test_rows_come_back_in_their_order(recipe: Recipe, trained: list, tmp_path: Path) -> None:
    answers = out_of_fold.out_of_fold_predictions(recipe, ROWS, 2, tmp_path, "x")
    assert [entities[0]["score"] for entities in answers] == [number / 10 for number in range(8)]
    assert sorted(number for fold in trained for number in fold) == list(range(8))


def test_a_fold_that_is_done_is_not_trained_again(recipe: Recipe, trained: list, tmp_path: Path) -> None:
    answers = out_of_fold.out_of_fold_predictions(recipe, ROWS, 2, tmp_path, "x")
    (tmp_path / "x-2-of-2.json").unlink()
    assert out_of_fold.out_of_fold_predictions(recipe, ROWS, 2, tmp_path, "x") == answers
    assert len(trained) == 3
    others = out_of_fold.out_of_fold_predictions(recipe, ROWS, 2, tmp_path, "x", alternatives=True)
    assert len(trained) == 5
    assert others != answers
    changed = [{**ROWS[0], "entities": [{"start": 0, "end": 1, "label": "A"}] * 2}, *ROWS[1:]]
    out_of_fold.out_of_fold_predictions(recipe, changed, 2, tmp_path, "x")
    assert len(trained) == 7


@pytest.mark.parametrize(
    "change",
    [
        lambda recipe, rows: (recipe, rows[::-1]),
        lambda recipe, rows: (recipe, [{**row, "document": f"d{number % 4}"} for number, row in enumerate(rows)]),
        lambda recipe, rows: (replace(recipe, training=replace(recipe.training, max_grad_norm=0.1)), rows),
    ],
    ids=["order", "documents", "settings"],
)
def test_folds_of_other_rows_or_settings_are_trained_anew(
    recipe: Recipe, trained: list, tmp_path: Path, change: Callable[[Recipe, list], tuple[Recipe, list]]
) -> None:
    out_of_fold.out_of_fold_predictions(recipe, ROWS, 2, tmp_path, "x")
    recipe, rows = change(recipe, ROWS)
    answers = out_of_fold.out_of_fold_predictions(recipe, rows, 2, tmp_path, "x")
    assert len(trained) == 4
    assert [entities[0]["score"] for entities in answers] == [number / 10 for number in range(8)]


def test_where_files_go_and_what_is_logged_changes_no_fold(recipe: Recipe, trained: list, tmp_path: Path) -> None:
    out_of_fold.out_of_fold_predictions(recipe, ROWS, 2, tmp_path, "x")
    training = replace(recipe.training, output_dir=str(tmp_path / "other"), logging_steps=7, disable_tqdm=True)
    out_of_fold.out_of_fold_predictions(replace(recipe, training=training), ROWS, 2, tmp_path, "x")
    assert len(trained) == 2

"""What `benchmarks/calibration.py --data` adds: weights by surfaces, the error over documents by hand, and promises."""

import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


def test_words_weigh_the_map_and_documents_give_its_error(
    benchmark_script: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    """Half of dev is known and right, half is new and wrong; all of test is new.

    The weights are (3.5 / 4.5) / (50.5 / 101.5) = 1.563 and (.5 / 4.5) / (50.5 / 101.5) = .223, so the weighted map
    says .223 / 1.786 = .125 where one of three is right.

    Platt's map of dev says 1 / 2 everywhere: too sure by .5 on the two wrong spans of the first document, too modest by
    .5 on the one right span of the second, in the mean by 1 / 6; the sums of what is left are 2 / 3 and -2 / 3, and
    the root of their squares is .943, a third of which is .314.
    """
    calibration = benchmark_script("calibration")
    known, new = ({"start": 0, "end": 1, "label": "PER"} for _ in range(2))
    words = {"train": ["Ana"], "dev": ["Ana", "Bo"] * 50, "test": ["Bo", "Bo", "Cy"]}
    gold = {"train": [[known]], "dev": [[known], []] * 50, "test": [[], [], [new]]}
    for split, tokens in words.items():
        lines = [
            json.dumps({"tokens": [word], "entities": entities, "document": f"{split}-{word}"})
            for word, entities in zip(tokens, gold[split], strict=True)
        ]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    found = [[known | {"score": 0.8}]]
    dev, test = (calibration.Rows(found * len(words[split]), gold[split]) for split in ("dev", "test"))
    errors = calibration.errors_with_words(dev, test, tmp_path)
    assert errors["platt too sure by"] == pytest.approx(1 / 6, abs=1e-3)
    assert errors["standard error"] == pytest.approx(0.314, abs=1e-3)
    assert errors["isotonic weighted"] == pytest.approx(1 / 3 - 0.125, abs=1e-3)
    with pytest.raises(ValueError, match=r"dev.jsonl must hold the rows of the run, got others"):
        calibration.errors_with_words(dev._replace(gold=gold["dev"][::-1]), test, tmp_path)


def test_promises_of_drawn_documents_are_counted(benchmark_script: Callable[[str], ModuleType]) -> None:
    """Twenty documents, four of which have half of their spans wrong and the others none: 90 % are right in all."""
    calibration = benchmark_script("calibration")
    span = {"start": 0, "end": 1, "label": "PER"}
    gold = [[span] if number % 5 or row % 2 else [] for number in range(20) for row in range(10)]
    rows = calibration.Rows([[span | {"score": 0.8}]] * 200, gold)
    names = [f"d{number}" for number in range(20) for _ in range(10)]
    asked = Namespace(precision=[0.91], delta=0.05, draws=200)
    drawn = calibration.drawn_promises(rows, names, asked)
    broken = [
        float(drawn[f"precision 0.91, 20 documents, by {name}"].split()[3][:-1])
        for name in ("documents", "predictions")
    ]
    assert broken[0] < 0.08 < 0.15 < broken[1]
    assert list(drawn)[::2] == [f"precision 0.91, {size} documents, by documents" for size in (5, 10, 20)]
    assert calibration.promised(rows, rows, 0.6, 0.05, names) == "180/200 right, of 200"
    assert calibration.promised(rows, rows, 0.91, 0.05, names) == "none"

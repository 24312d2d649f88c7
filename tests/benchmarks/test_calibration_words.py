"""What `benchmarks/calibration.py --data` adds: weights by surfaces, and the standard error over documents by hand."""

import json
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

"""Two processes agree with one: gradients, answers and scores of every method."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from method_facts import facts_of
from transformers import PreTrainedTokenizerBase

from hf_spanner import METHODS, SpanNERPipeline

PROGRAM = Path(__file__).with_name("launched_processes.py")
TOLERANCE = 1e-5  # that of a weight after two steps, and that of a score


def answers_of(rows: list[list[dict[str, Any]]]) -> list[dict[tuple, float]]:
    return [{(entity["start"], entity["end"], entity["label"]): entity["score"] for entity in row} for row in rows]


@pytest.mark.slow
def test_two_processes_agree_with_one(
    random_tagger: Callable[..., SpanNERPipeline],
    whole_steps: Callable[[str], dict[str, Any]],
    tokenizer: PreTrainedTokenizerBase,
    rows: list[dict[str, Any]],
    run_python: Callable[..., str],
    tmp_path: Path,
    record_property: Callable[[str, Any], None],
) -> None:
    """A step has four sentences, as 4 and as 2 x 2.

    An odd number of rows is evaluated, one of them in windows. Evaluation comes first: it must not keep the processes
    from sharing gradients afterwards.
    """
    long = {"tokens": ["Ana", "met", "Bo", "in", "Oslo"] * 15, "entities": [{"start": 0, "end": 1, "label": "PER"}]}
    models = {
        method: random_tagger(method, window_size=40, window_overlap=10, **whole_steps(method)).model
        for method in METHODS
    }
    for method, model in models.items():
        model.save_pretrained(tmp_path / method)
        tokenizer.save_pretrained(tmp_path / method)
        (tmp_path / f"{method}.json").write_text(json.dumps(facts_of(method).short_training), encoding="utf-8")
    (tmp_path / "rows.json").write_text(json.dumps([*rows, *rows, long]), encoding="utf-8")
    one_process, two_processes = tmp_path / "one", tmp_path / "two"
    run_python(PROGRAM, tmp_path, one_process, "4")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    run_python(*launch, PROGRAM, tmp_path, two_processes, "2")
    scores = [
        json.loads((folder / "scores.json").read_text(encoding="utf-8")) for folder in (one_process, two_processes)
    ]
    for method in METHODS:
        left, right = torch.load(one_process / f"{method}.pt"), torch.load(two_processes / f"{method}.pt")
        start = models[method].state_dict()
        moved = max((left[name] - start[name]).abs().max().item() for name in left)
        largest = max((left[name] - right[name]).abs().max().item() for name in left)
        record_property(f"{method} weights", largest)
        assert largest <= TOLERANCE < 1e-3 < moved, method
        alone, shared = scores[0][method], scores[1][method]
        assert (alone.pop("world"), shared.pop("world")) == (1, 2)
        single_answers, shared_answers = answers_of(alone.pop("answers")), answers_of(shared.pop("answers"))
        assert [row.keys() for row in single_answers] == [row.keys() for row in shared_answers], method
        assert any(single_answers), method
        assert all(
            shared_answers[place][key] == pytest.approx(score, abs=TOLERANCE)
            for place, row in enumerate(single_answers)
            for key, score in row.items()
        )
        assert shared == pytest.approx(alone, abs=TOLERANCE), method
    seen = json.loads((two_processes / "seen.json").read_text(encoding="utf-8"))
    words = sorted(f"row{number}" for number in range(24))
    for epoch in (0, 1):
        epoch_words = [word for process_words in seen for word in process_words[12 * epoch : 12 * epoch + 12]]
        assert sorted(epoch_words) == words, "rows left out or doubled"

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from bare_process import BareProcess

from hf_spanner.metrics.span_ner import scoring
from hf_spanner.metrics.span_ner.scoring import score_spans
from hf_spanner.metrics.span_ner.span_ner import SpanNERMetric

FOLDER = Path(scoring.__file__).parent

PREDICTIONS = [
    [
        {"start": 0, "end": 3, "label": "PER", "score": 0.3},
        {"start": 0, "end": 3, "label": "PER", "score": 0.9},
        {"start": 8, "end": 11, "label": "LOC", "score": 0.6},
    ],
    [],
    [{"start": 2, "end": 3, "label": "ORG", "score": 0.3}],
]
REFERENCES = [
    [{"start": 0, "end": 3, "label": "PER"}, {"start": 8, "end": 12, "label": "LOC"}],
    [],
    [{"start": 2, "end": 3, "label": "ORG"}],
]

WITHOUT_NETWORK = """
import json, socket, sys


def refuse(*_):
    raise AssertionError("the metric reached for the network")


socket.socket.connect = refuse
socket.getaddrinfo = refuse

import evaluate

try:
    import hf_spanner
except ImportError:
    pass
else:
    raise AssertionError("the package can be imported")

predictions, references = json.loads(sys.argv[2])
metric = evaluate.load(sys.argv[1])
print(json.dumps({
    "class": type(metric).__name__,
    "result": metric.compute(
        predictions=predictions, references=references, num_bins=5, zero_division=1.0, num_resamples=20, seed=3
    ),
}))
"""


@pytest.fixture
def metric(tmp_path):
    return SpanNERMetric(cache_dir=str(tmp_path))


def test_loads_by_folder_without_the_package_and_without_a_network(bare_process: BareProcess, tmp_path: Path) -> None:
    printed = bare_process.run(WITHOUT_NETWORK, FOLDER, json.dumps([PREDICTIONS, REFERENCES]), cwd=tmp_path)
    answer = json.loads(printed.splitlines()[-1])
    assert answer["class"] == "SpanNERMetric"
    options = {"num_bins": 5, "zero_division": 1.0, "num_resamples": 20, "seed": 3}
    assert answer["result"] == score_spans(PREDICTIONS, REFERENCES, **options)


def test_folder_needs_only_numpy_datasets_and_evaluate():
    sources = "".join(path.read_text(encoding="ascii") for path in FOLDER.glob("*.py"))
    assert "hf_spanner." not in sources
    roots = {line.split()[1].split(".")[0] for line in sources.splitlines() if line.startswith(("import ", "from "))}
    assert roots - {""} <= {*sys.stdlib_module_names, "numpy", "datasets", "evaluate"}


def test_metric_file_imports_from_every_file_of_the_folder():
    """The loader follows no imports but those of this one file."""
    source = (FOLDER / "span_ner.py").read_text(encoding="ascii")
    others = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "span_ner"}
    assert others == {"curves", "matching", "reliability", "resampling", "scoring"}
    assert [name for name in others if f"\nfrom .{name} import " not in source] == []


def test_result_is_that_of_score_spans(metric):
    result = metric.compute(predictions=PREDICTIONS, references=REFERENCES)
    assert result == score_spans(PREDICTIONS, REFERENCES)
    assert result["num_correct"] == 2
    assert result["duplicates_removed"] == {"predictions": 1, "references": 0}


def test_options_reach_the_scores(metric):
    """Two labels are never predicted or never gold here, so zero_division shows; bins show by their number."""
    predictions, references = [[PREDICTIONS[0][2]]], [[REFERENCES[0][0]]]
    result = metric.compute(predictions=predictions, references=references, num_bins=4, zero_division=1.0)
    assert len(result["reliability"]) == 4
    assert result["per_label"]["PER"]["precision"] == 1.0
    assert metric.compute(predictions=predictions, references=references)["per_label"]["PER"]["precision"] == 0.0


def test_options_of_intervals_reach_the_scores(metric):
    options = {"documents": ["a", None, "a"], "num_resamples": 40, "confidence_level": 0.5, "seed": 2}
    result = metric.compute(predictions=PREDICTIONS, references=REFERENCES, **options)
    assert result == score_spans(PREDICTIONS, REFERENCES, **options)
    assert result["intervals"]["num_documents"] == 2


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 1), (1, 2)])
def test_batches_give_the_result_of_the_whole(metric, sizes):
    for _ in range(2):
        start = 0
        for size in sizes:
            stop = start + size
            metric.add_batch(predictions=PREDICTIONS[start:stop], references=REFERENCES[start:stop])
            start = stop
        assert metric.compute(num_bins=7) == score_spans(PREDICTIONS, REFERENCES, num_bins=7)


def test_first_batch_without_spans_and_single_texts_are_fine(metric):
    metric.add_batch(predictions=[[]], references=[[]])
    metric.add(prediction=PREDICTIONS[0], reference=REFERENCES[0])
    metric.add(prediction=PREDICTIONS[2], reference=REFERENCES[2])
    assert metric.compute() == score_spans(PREDICTIONS, REFERENCES)


@pytest.mark.parametrize("texts", [[], [[]], [[], []]])
def test_empty_input_gives_zeros_and_no_calibration_and_never_nan(metric, texts):
    result = metric.compute(predictions=texts, references=texts)
    numbers = [value for value in result.values() if isinstance(value, (int, float))]
    assert numbers == [0.0] * 13
    undefined = {name for name, value in result.items() if value is None}
    assert undefined == {"overall_ece", "overall_mce", "overall_ece_mass", "overall_brier"}
    assert set(result["brier_split"].values()) == {None}
    assert result["per_label"] == {}
    assert all(math.isfinite(number) for number in numbers)


@pytest.mark.parametrize("score", [1.2, math.nan, None])
def test_what_is_no_score_is_refused(metric, score):
    with pytest.raises(ValueError, match=r"score must be a number in \[0, 1\]"):
        metric.compute(predictions=[[{**PREDICTIONS[2][0], "score": score}]], references=[REFERENCES[2]])


def test_unequal_lengths_are_refused(metric):
    with pytest.raises(ValueError, match="references"):
        metric.compute(predictions=PREDICTIONS, references=REFERENCES[:2])


def test_float32_score_lies_in_the_same_bin_as_without_the_metric(metric):
    """Arrow stores scores as doubles: float32(0.3) stays 0.3000000119, above the border 0.3."""
    predictions = [[{**PREDICTIONS[2][0], "score": np.float32(0.3)}]]
    result = metric.compute(predictions=predictions, references=[REFERENCES[2]])
    assert result == score_spans(predictions, [REFERENCES[2]])
    assert [entry["count"] for entry in result["reliability"]] == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]


def test_example_of_the_card(metric):
    predictions = [
        [
            {"start": 0, "end": 2, "label": "PER", "score": 0.9},
            {"start": 5, "end": 6, "label": "LOC", "score": 0.6},
        ],
        [],
    ]
    references = [[{"start": 0, "end": 2, "label": "PER"}], [{"start": 3, "end": 4, "label": "ORG"}]]
    result = metric.compute(predictions=predictions, references=references)
    assert result["overall_f1"] == 0.5
    assert result["overall_ece"] == pytest.approx(0.35)
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    with_intervals = metric.compute(predictions=predictions, references=references, num_resamples=10)
    named = [*with_intervals, *with_intervals["intervals"]]
    assert [key for key in named if f"`{key}`" not in card] == []


SPAN = {"start": 0, "end": 1, "label": "PER", "score": 0.5}
WRONG = [
    *([{name: value for name, value in SPAN.items() if name != missing}] for missing in SPAN),
    *([SPAN | {name: None}] for name in SPAN),
    [SPAN | {"start": "0"}],
    [SPAN | {"start": 2}],
    [SPAN | {"end": 1.5}],
    [SPAN | {"label": 3}],
    [SPAN | {"score": 1.5}],
    [SPAN | {"score": math.nan}],
    [SPAN | {"score": "high"}],
    [(0, 1, "PER", 0.5)],
    ["PER"],
    SPAN,
    "PER",
    None,
    3,
]


@pytest.mark.parametrize("text", WRONG, ids=repr)
def test_wrong_predictions_are_refused_in_words_however_they_are_added(text):
    """With the encoding of the library alone a span without score is a KeyError that says no more than 'score'."""
    gold = [{name: SPAN[name] for name in ("start", "end", "label")}]
    messages = []
    for given in (
        lambda metric: metric.compute(predictions=[[], text], references=[[], gold]),
        lambda metric: metric.add_batch(predictions=[[], text], references=[[], gold]),
        lambda metric: metric.add(prediction=text, reference=gold),
    ):
        with pytest.raises(ValueError, match=r"^predictions\[[01]\]") as error:
            given(SpanNERMetric())
        messages.append(str(error.value))
    assert messages[0] == messages[1] == messages[2].replace("[0]", "[1]", 1)


@pytest.mark.parametrize("texts", [None, "PER", SPAN, 3], ids=repr)
def test_sides_that_are_no_lists_of_texts_are_refused_in_words(texts):
    for sides in ({"predictions": texts, "references": [[]]}, {"predictions": [[]], "references": texts}):
        with pytest.raises(ValueError, match="must be a list with a list of spans for each text"):
            SpanNERMetric().compute(**sides)
        with pytest.raises(ValueError, match="must be a list with a list of spans for each text"):
            score_spans(**sides)

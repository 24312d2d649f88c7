"""How near scores come to the true probabilities of the quickstart corpus, from predictions that `quality.py` kept.

    python benchmarks/quality.py recipes/bopn/quickstart.yaml --name quickstart --splits dev test
    python benchmarks/true_confidence.py 'quickstart*-seed42'

The corpus says how likely each span was to be annotated; a span that it does not name could never be. Beside the
calibration error against gold stands the mean absolute error against that truth: over all predictions, over those of
the entities whose edge a coin decided, and over the certain ones. Raw, then by each map fitted on the development rows.
The last column needs no calibration: how often a certain entity scores higher than one that a coin decided (ties half).
"""

import argparse
import gzip
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from calibration import Rows, error, fitted, mapped
from kept_runs import kept_runs
from scipy.stats import mannwhitneyu

from hf_spanner.analysis.comparison import read_predictions
from hf_spanner.calibration.fitting import ScoredPredictions
from hf_spanner.core.calibration import PARAMETERS

ROOT = Path(__file__).parent.parent
ROWS = ROOT / "hf_spanner" / "quickstart" / "test.jsonl.gz"
COINS = ROOT / "recipes" / "quickstart_data" / "test_coins.jsonl.gz"
SpanKey = tuple[int, int, int, str]  # row, start, end, label


def main() -> None:
    """Print one line for each run and map."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "runs", nargs="+", help="names or patterns of runs on test rows; the same with `-dev` must be kept"
    )
    arguments = parser.parse_args()
    truth = true_probabilities()
    print(f"{'run':<48}{'scores':<13}{'ECE':>7}{'truth':>8}{'coins':>8}{'certain':>8}{'order':>8}")
    for run in kept_runs(arguments.runs):
        rows, dev = Rows(*read_predictions(run)), Rows(*read_predictions(f"{run}-dev"))
        name = run.partition("#")[2]
        print_errors(name, "raw", rows, rows.scored(), truth)
        for kind in PARAMETERS:
            print_errors(name, kind, rows, mapped(fitted(kind, dev), rows.scored()), truth)


def true_probabilities() -> dict[SpanKey, float]:
    """Probability of every span of the test split that could have been annotated."""
    rows, coins = (map(json.loads, gzip.decompress(path.read_bytes()).splitlines()) for path in (ROWS, COINS))
    places = {record["id"]: row for row, record in enumerate(rows)}
    return {(places[coin["id"]], coin["start"], coin["end"], coin["label"]): coin["probability"] for coin in coins}


def print_errors(
    name: str, kind: str, rows: Rows, predictions: ScoredPredictions, truth: Mapping[SpanKey, float]
) -> None:
    """One line: calibration error, and the mean distances to the truth."""
    keys = [
        (row, entity["start"], entity["end"], entity["label"])
        for row, entities in enumerate(rows.predicted)
        for entity in entities
    ]
    true = np.array([truth.get(key, 0.0) for key in keys])
    distances = np.abs(predictions.scores - true)
    has_coin = (true > 0) & (true < 1)
    certain, coined = predictions.scores[true == 1], predictions.scores[has_coin]
    order = mannwhitneyu(certain, coined).statistic / (len(certain) * len(coined))
    shown = (error(predictions), distances.mean(), distances[has_coin].mean(), distances[true == 1].mean(), order)
    print(f"{name:<48}{kind:<13}" + "".join(f"{value:>8.3f}" for value in shown), f"{len(keys):>6} predictions")


if __name__ == "__main__":
    main()

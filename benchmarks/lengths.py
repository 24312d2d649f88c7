"""F1 by the length of entities, from predictions that `quality.py` kept.

    python benchmarks/lengths.py gum_full-locate_and_label-seed42 --bounds 4 9 15

An entity counts where its own length falls, predicted or gold, so that each length has a precision and a recall.
"""

import argparse
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from kept_runs import kept_runs

from hf_spanner.analysis.comparison import read_predictions


def main() -> None:
    """Print a table of lengths for each run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", help="names of kept runs, or patterns such as 'gum_full*'")
    parser.add_argument("--bounds", nargs="+", type=int, default=[4, 9], help="longest of each class but the last")
    arguments = parser.parse_args()
    for run in kept_runs(arguments.runs):
        print(run)
        for name, predicted, gold, right in counts_by_length(run, sorted(arguments.bounds)):
            f1 = 200 * right / max(predicted + gold, 1)
            print(f"{name:>8} words{predicted:>8} predicted{gold:>8} gold{right:>8} right{f1:>8.1f} F1")


def counts_by_length(run: str, bounds: Sequence[int]) -> list[tuple[str, int, int, int]]:
    """Name, predicted, gold and right entities of each class of lengths."""
    predicted, gold, right = Counter(), Counter(), Counter()
    for sides in zip(*read_predictions(run), strict=True):
        predicted_keys, gold_keys = ({(span["start"], span["end"], span["label"]) for span in spans} for spans in sides)
        for counter, spans in ((predicted, predicted_keys), (gold, gold_keys), (right, predicted_keys & gold_keys)):
            counter.update(bisect_left(bounds, end - start) for start, end, _ in spans)
    firsts = [1, *(bound + 1 for bound in bounds)]
    names = [f"{first}-{last}" for first, last in zip(firsts, bounds, strict=False)] + [f">= {firsts[-1]}"]
    return [(name, predicted[place], gold[place], right[place]) for place, name in enumerate(names)]


if __name__ == "__main__":
    main()

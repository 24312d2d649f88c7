"""F1 by the length of entities, from files of predictions that `quality.py` kept.

    python benchmarks/lengths.py benchmarks/predictions/gum_equal-locate_and_label-seed1.jsonl --bounds 4 9 15

An entity counts where its own length falls, predicted or gold, so that each length has a precision and a recall.
"""

import argparse
import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from pathlib import Path


def main() -> None:
    """Print a table of lengths for each file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--bounds", nargs="+", type=int, default=[4, 9], help="longest of each class but the last")
    arguments = parser.parse_args()
    for file in arguments.files:
        print(file.name)
        for name, predicted, gold, right in counts_by_length(file, sorted(arguments.bounds)):
            f1 = 200 * right / max(predicted + gold, 1)
            print(f"{name:>8} words{predicted:>8} predicted{gold:>8} gold{right:>8} right{f1:>8.1f} F1")


def counts_by_length(file: Path, bounds: Sequence[int]) -> list[tuple[str, int, int, int]]:
    """Name, predicted, gold and right entities of each class of lengths."""
    predicted, gold, right = Counter(), Counter(), Counter()
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found, wanted = ({tuple(span[:3]) for span in row[name]} for name in ("predicted", "gold"))
        for counter, spans in ((predicted, found), (gold, wanted), (right, found & wanted)):
            counter.update(bisect_left(bounds, end - start) for start, end, _ in spans)
    firsts = [1, *(bound + 1 for bound in bounds)]
    names = [f"{first}-{last}" for first, last in zip(firsts, bounds, strict=False)] + [f">= {firsts[-1]}"]
    return [(name, predicted[place], gold[place], right[place]) for place, name in enumerate(names)]


if __name__ == "__main__":
    main()

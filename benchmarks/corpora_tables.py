"""Tables and the picture of `docs/which_method.md`, made of the lines of `corpora.jsonl.gz`.

python benchmarks/corpora_tables.py      draws docs/pictures/which_method.svg; results_tables.py writes the tables
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import log
from pathlib import Path
from statistics import mean, median
from typing import Any

from corpora import BASELINE, BUDGET, CORPORA, SMALL, kept_lines

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "pictures" / "which_method.svg"
COLUMNS = {
    "boundary_smoothing": ("Boundary Smoothing", "#1f77b4"),
    "locate_and_label": ("Locate and Label", "#2ca02c"),
    "bopn": ("BOPN", "#d62728"),
    "diffusion_ner": ("DiffusionNER", "#9467bd"),
    BASELINE: ("token classifier", "#7f7f7f"),
}
MIN_RATE, MAX_RATE = 5.0, 320.0
WIDTH, HEIGHT, MARGIN = 760, 460, 50

Line = dict[str, Any]


def equal_budget() -> dict[tuple[str, str], Line]:
    """The runs of the table, by corpus and method."""
    lines = [line for line in kept_lines() if line["split"] == "test"]
    at_budget = [line for line in lines if (line["train"], line["steps"]) == tuple(BUDGET.values())]
    return {(line["corpus"], line["method"]): line for line in at_budget}


def corpora_table() -> list[list[str]]:
    """F1, raw and calibrated error of each corpus and method, then what each method has over all of its corpora."""
    runs = equal_budget()
    header = ["corpus", "what", *(name for name, _ in COLUMNS.values())]
    rows = [header]
    for corpus, facts in CORPORA.items():
        if not any((corpus, method) in runs for method in COLUMNS):
            continue
        nesting = ", nested" if facts.is_nested else ""
        found = [runs[corpus, method]["f1"] for method in COLUMNS if (corpus, method) in runs]
        best = max(found) if len(found) > 1 else None
        cells = [cell(runs.get((corpus, method)), best) for method in COLUMNS]
        rows.append([corpus + ("" if facts.is_open else " *"), f"{facts.language}, {facts.field}{nesting}", *cells])
    complete = shared_corpora(runs)
    rows += summary(runs, "flat", [corpus for corpus in complete if not CORPORA[corpus].is_nested])
    rows += summary(runs, "nested", [corpus for corpus in complete if CORPORA[corpus].is_nested])
    return rows


def shared_corpora(runs: Mapping[tuple[str, str], Line]) -> list[str]:
    """Corpora that all methods have, over which alone they can be compared by one number."""
    return [corpus for corpus in CORPORA if all((corpus, method) in runs for method in COLUMNS)]


def cell(line: Line | None, best: float | None) -> str:
    """F1, bold where no method has more, and the error of raw and of calibrated scores."""
    if line is None:
        return "-"
    f1 = f"{100 * line['f1']:.1f}"
    errors = [decimals(line["ece"]), *([decimals(line["calibrated"])] if line["map"] is not None else [])]
    return f"{f'**{f1}**' if line['f1'] == best else f1}; {' > '.join(errors)}"


def summary(runs: Mapping[tuple[str, str], Line], kind: str, corpora: Sequence[str]) -> list[list[str]]:
    """Means over corpora that all methods have: F1, errors, minutes of training, and the middle number of sentences."""
    if not corpora:
        return []
    columns = [[runs[corpus, method] for corpus in corpora] for method in COLUMNS]
    quantities: dict[str, Callable[[list[Line]], str]] = {
        "mean F1": lambda lines: f"{100 * mean(line['f1'] for line in lines):.1f}",
        "mean ECE, raw > calibrated": lambda lines: " > ".join(
            decimals(mean(line[name] for line in lines if line["map"] is not None)) for name in ("ece", "calibrated")
        ),
        "minutes to train, mean": lambda lines: f"{mean(line['minutes'] for line in lines):.1f}",
        "sentences a second, median": lambda lines: f"{median(line['rate'] for line in lines):.0f}",
    }
    return [
        [f"{len(corpora)} {kind}", name, *(quantity(lines) for lines in columns)]
        for name, quantity in quantities.items()
    ]


def decimals(value: float | None) -> str:
    """Three decimals without the zero before them, or a dash."""
    return "-" if value is None else f"{value:.3f}".removeprefix("0")


def small_table(subject: str) -> list[list[str]]:
    """The runs on a split of a corpus, such as `conll2003 test`, by the sentences and steps that they learnt in."""
    corpus, _, split = subject.partition(" ")
    lines = [line for line in kept_lines() if (line["corpus"], line["split"]) == (corpus, split)]
    runs = {(line["train"], line["steps"], line["method"]): line for line in lines}
    rows = [
        [f"{train:,}", str(steps), *(cell(runs.get((train, steps, method)), None) for method in COLUMNS)]
        for train, steps in sorted({(train, steps) for train, steps, _ in runs})
    ]
    return [["sentences", "steps", *(name for name, _ in COLUMNS.values())], *rows]


def smallest_table(split: str) -> list[list[str]]:
    """The runs on a split of the smallest corpora, then the mean F1 of the methods that were run on all of them."""
    lines = [line for line in kept_lines() if line["corpus"] in SMALL and line["split"] == split]
    runs = {(line["steps"], line["corpus"], line["method"]): line for line in lines}
    sentences = {line["corpus"]: line["train"] for line in lines}
    steps = sorted({line["steps"] for line in lines})
    rows = [["corpus", "sentences", "steps", *(name for name, _ in COLUMNS.values())]]
    for corpus, number in product(sentences, steps):
        found = [runs.get((number, corpus, method)) for method in COLUMNS]
        if any(found):
            rows.append([corpus, str(sentences[corpus]), str(number), *(cell(line, None) for line in found)])
    for number in steps:
        f1 = [
            [runs[key]["f1"] for corpus in sentences if (key := (number, corpus, method)) in runs] for method in COLUMNS
        ]
        means = [f"{100 * mean(values):.1f}" if len(values) == len(sentences) else "-" for values in f1]
        rows.append(["mean F1", "", str(number), *means])
    return rows


def picture() -> str:
    """F1 of each run against its sentences a second, as SVG; a ring is a median over `shared_corpora`."""
    runs = equal_budget()
    marks = []
    for place, (method, (name, colour)) in enumerate(COLUMNS.items()):
        lines = [line for (_, owner), line in runs.items() if owner == method]
        marks.append(f'<text x="{MARGIN + 145 * place}" y="20" fill="{colour}">{name}</text>')
        marks.append(f'<g fill="{colour}" fill-opacity=".6">')
        marks += [
            f'<circle cx="{across(line["rate"]):.0f}" cy="{up(line["f1"]):.0f}" r="4">'
            f"<title>{line['corpus']}: {100 * line['f1']:.1f}, {line['rate']:.0f}/s</title></circle>"
            for line in lines
        ]
        shared = [runs[corpus, method] for corpus in shared_corpora(runs)]
        if shared:
            middle = [median(line[key] for line in shared) for key in ("rate", "f1")]
            marks.append(
                f'<circle cx="{across(middle[0]):.0f}" cy="{up(middle[1]):.0f}" r="11" fill="none" '
                f'stroke="{colour}" stroke-width="3"/>'
            )
        marks.append("</g>")
    axes = [f'<path d="M{MARGIN} 30V{HEIGHT - MARGIN}H{WIDTH - 10}" fill="none" stroke="black"/>']
    axes += [f'<text x="{MARGIN - 30}" y="{up(tenth / 10) + 4:.0f}">{10 * tenth}</text>' for tenth in range(2, 11, 2)]
    axes += [
        f'<text x="{across(rate) - 10:.0f}" y="{HEIGHT - MARGIN + 18}">{rate}</text>'
        for rate in (5, 10, 20, 50, 100, 200)
    ]
    axes.append(f'<text x="{WIDTH // 2 - 100}" y="{HEIGHT - 12}">sentences a second, one thread</text>')
    axes.append(f'<text x="14" y="{HEIGHT // 2}" transform="rotate(-90 14 {HEIGHT // 2})">F1</text>')
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    back = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    return "\n".join([head, back, *axes, *marks, "</svg>", ""])


def across(rate: float) -> float:
    """Place of a rate from the left, on a scale of equal ratios."""
    return MARGIN + (WIDTH - MARGIN - 10) * log(rate / MIN_RATE) / log(MAX_RATE / MIN_RATE)


def up(f1: float) -> float:
    """Place of an F1 from the top."""
    return HEIGHT - MARGIN - (HEIGHT - MARGIN - 30) * f1


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")

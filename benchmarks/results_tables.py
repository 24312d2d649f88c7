"""Write the tables of results into the pages that show them, from `predictions/results.jsonl.gz` and `speed/*.json`.

    python benchmarks/results_tables.py
    python benchmarks/results_tables.py --check     compares only; exit code 1 if a page is stale

A page marks the place of a table with `<!-- table: NAME -->` and `<!-- end of table -->`; what lies between is written
here and nowhere else. A test fails if a page is stale.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from statistics import mean, median
from typing import Any

from corpora_tables import corpora_table, small_table, smallest_table
from kept_runs import file_of_run, kept_results, run_name

from hf_spanner import METHODS, Recipe
from hf_spanner.analysis.comparison import read_predictions
from hf_spanner.metrics.span_ner.scoring import score_spans
from hf_spanner.quickstart import RECIPE as QUICKSTART
from hf_spanner.training.recipe import plain_yaml

ROOT = Path(__file__).parent.parent
SPEED = ROOT / "benchmarks" / "speed"
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "benchmarks" / "README.md",
        ROOT / "recipes" / "README.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "model_cards").glob("*.md"),
        *(ROOT / "hf_spanner" / "methods").glob("*/README.md"),
    ]
)
TABLE = re.compile(r"(<!-- table: ([\w ]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
BASELINE = "token_classification"
CORPORA = {"conll2003": "CoNLL 2003", "gum": "GUM", "weibo": "Weibo", "quickstart": "the quickstart's corpus"}
CHOICE = {
    "boundary_smoothing": "you begin: it is the fastest",
    "locate_and_label": "entities of several words nest",
    "bopn": "little data, most entities",
    "diffusion_ner": "a call may trade time for entities",
    BASELINE: "nothing nests",
}
BAR = 60  # characters of a whole bar
FORWARD = "corpus in the same batches, forward and decoding: time"

Run = dict[str, Any]


def main() -> None:
    """Write or check all pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only; exit code 1 if a page is stale")
    is_check = parser.parse_args().check
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        new = with_tables(text)
        if new != text and is_check:
            sys.exit(f"{page} is stale; run {Path(__file__).name} without --check")
        if new != text:
            page.write_text(new, encoding="utf-8")


def with_tables(text: str) -> str:
    """The text of a page with all of its tables written anew.

    Raises:
        ValueError: If a table has no maker.
    """
    return TABLE.sub(lambda match: f"{match[1]}{table_text(match[2])}\n{match[3]}", text)


def table_text(name: str) -> str:
    """A table by its name, such as `runs gum`: what makes it, then what it is about."""
    maker, _, subject = name.partition(" ")
    if maker not in MAKERS:
        raise ValueError(f"table must be one of {', '.join(MAKERS)} and what it is about, got {name!r}")
    return MAKERS[maker](subject)


@cache
def runs() -> list[Run]:
    """All runs on test rows, in the order of their names, those of a method one after the other."""
    order = [*METHODS, BASELINE]
    tested = [line for line in kept_results() if line["split"] == "test"]
    return sorted(tested, key=lambda line: (order.index(line["method"]), line["name"], line["seed"]))


def grouped(lines: Iterable[Run]) -> list[list[Run]]:
    """Runs that differ in their seed only."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for line in lines:
        groups.setdefault((line["name"], line["method"]), []).append(line)
    return list(groups.values())


def choice_table(_: str) -> str:
    """Each method and the baseline: when to choose it, scores of training on all sentences, and time if measured."""
    times = {file.stem: f"{median(speed_rounds(file, FORWARD)):.1f}x" for file in SPEED.glob("*.json")}
    rows = []
    for method, choice in CHOICE.items():
        name = f"`{method}`" if method in METHODS else "token classifier"
        scores = [scores_of(runs_of(f"{corpus}_full", method)) for corpus in ("conll2003", "gum")]
        rows.append([name, choice, *scores, *([times.get(method, "-")] if times else [])])
    header = ["method", "choose it when", "CoNLL 2003: F1, ECE", "GUM, nested: F1, ECE"]
    return markdown_table([*header, *(["time / encoder"] if times else [])], rows)


def scores_of(group: Sequence[Run]) -> str:
    """Mean F1 and calibration error of some runs."""
    if not group:
        return "cannot nest"
    f1, ece = (mean(run[f"overall_{score}"] for run in group) for score in ("f1", "ece"))
    return f"{percent([f1])}, {with_each([ece], '{:.3f}')}"


def speed_rounds(file: Path, quantity: str) -> list[float]:
    """What `speed.py` measured of a quantity in each round."""
    return json.loads(file.read_text(encoding="utf-8"))["results"][quantity]["rounds"]


def runs_of(name: str, method: str) -> list[Run]:
    """The runs of a name and method, of one seed after the other."""
    return [run for run in runs() if (run["name"], run["method"]) == (name, method)]


def corpus_table(corpus: str) -> str:
    """All runs on a corpus."""
    return runs_table([run for run in runs() if run["name"].startswith(corpus)], with_method=True)


def method_table(method: str) -> str:
    """All runs of a method."""
    return runs_table([run for run in runs() if run["method"] == method], with_method=False)


def full_table(method: str) -> str:
    """Runs of a method on all sentences of a corpus."""
    full = [run for run in runs() if run["method"] == method and run["name"].endswith("_full")]
    return runs_table(full, with_method=False)


def runs_table(chosen: Sequence[Run], *, with_method: bool) -> str:
    """Budget and scores of runs, one row for all seeds of a run: the mean, and each in brackets."""
    rows = []
    for group in grouped(chosen):
        first = group[0]
        row = [f"`{first['name']}`", *([first["method"]] if with_method else [])]
        row += [f"{first['rows']['train']:,}", str(epochs(first)), ", ".join(str(run["seed"]) for run in group)]
        row += [percent([run[f"overall_{score}"] for run in group]) for score in ("precision", "recall")]
        row += [f1_text(group), ece_text(group), calibrated_text(group)]
        rows.append([*row, f"{mean(run['minutes'] for run in group):.0f}"])
    facts = ["run", *(["method"] if with_method else []), "sentences", "epochs", "seeds"]
    return markdown_table([*facts, "P", "R", "F1", "ECE", "calibrated", "min"], rows)


def epochs(run: Run) -> int:
    """Epochs of a run: its own, or those of its recipe."""
    num_epochs = settings(run).get("training.num_train_epochs")
    return recipe_of(run).training.num_train_epochs if num_epochs is None else num_epochs


def settings(run: Run) -> dict[str, Any]:
    """The settings in which a run differed from its recipe."""
    pairs = (override.partition("=") for override in run["overrides"])
    return {name: plain_yaml(value, name) for name, _, value in pairs}


def recipe_of(run: Run) -> Recipe:
    """The recipe of a run; the baseline has that of Boundary Smoothing."""
    method = "boundary_smoothing" if run["method"] == BASELINE else run["method"]
    path = ROOT / "recipes" / method / run["recipe"]
    return read(path if path.exists() else QUICKSTART)


@cache
def read(path: Path) -> Recipe:
    """A recipe, read on any machine."""
    return Recipe.from_yaml(path, ["training.use_cpu=true"])


def recipes_table(method: str) -> str:
    """The recipes of a method: what the paper reports, and what we measured with exactly this recipe."""
    quickstart = [QUICKSTART] if method == "boundary_smoothing" else []
    rows = []
    for path in [*quickstart, *sorted((ROOT / "recipes" / method).glob("*.yaml"))]:
        recipe = read(path)
        measured = [run for run in runs() if run["method"] == method and is_of_recipe(run, path.name, recipe)]
        scores = [f1_text(measured), ece_text(measured)] if measured else ["-", "-"]
        paper = recipe.paper or {}
        encoder = re.split(r"/|__", recipe.encoder)[-1]
        rows.append([f"`{path.stem}`", encoder, str(paper.get("f1", "-")), paper.get("where", "-"), *scores])
    return markdown_table(["recipe", "encoder", "F1, paper", "where in it", "F1, ours", "ECE, ours"], rows)


def is_of_recipe(run: Run, name: str, recipe: Recipe) -> bool:
    """Whether a run trained a recipe as it stands, on all of its sentences."""
    has_all_rows = "_full" in run["name"] or run["name"].startswith("quickstart")
    if run["recipe"] != name or not has_all_rows:
        return False
    expected = {"model": recipe.model, "training": vars(recipe.training)}
    return all(
        expected[section].get(key) == value
        for section, _, key, value in ((*name.partition("."), value) for name, value in settings(run).items())
        if section == "model" or key in ("num_train_epochs", "adam_beta1")
    )


def speed_table(_: str) -> str:
    """What `speed.py` measured of each method: the median round of each quantity."""
    files = sorted(SPEED.glob("*.json"))  # one file for each method that was measured
    facts = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    rows = [
        [quantity, *(median_text(method_facts["results"].get(quantity)) for method_facts in facts)]
        for quantity in facts[0]["results"]
    ]
    about = facts[0]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    dates = " to ".join(sorted({method_facts["date"] for method_facts in facts}))
    note = f"{dates}, {about['machine']}, {about['threads']} threads, {versions}; {about['data']}."
    return f"{markdown_table(['as a ratio to the bare encoder', *(file.stem for file in files)], rows)}\n\n{note}"


def median_text(measured: dict[str, Any] | None) -> str:
    """The median round of a quantity, or a dash where it was not measured."""
    return "-" if measured is None else f"{median(measured['rounds']):.2f}"


def reliability_picture(run: str) -> str:
    """For each tenth of the scores of a run, the share of right spans as a bar and the mean score as a stroke."""
    method = next(method for method in METHODS if run.endswith(f"_{method}"))
    name = run_name(runs_of(run.removesuffix(f"_{method}"), method)[0])
    predicted, gold = read_predictions(f"{file_of_run(name)}#{name}")
    lines = []
    for score_bin in score_spans(predicted, gold)["reliability"]:
        if score_bin["count"]:
            bar = f"{'#' * round(BAR * score_bin['precision']):<{BAR}}"
            stroke = min(round(BAR * score_bin["confidence"]), BAR - 1)
            lines.append(f"{bar[:stroke]}|{bar[stroke + 1 :]}".rstrip().replace(" ", "."))
    return "\n".join(["```", *lines, "```"])


def percent(values: Sequence[float]) -> str:
    """The mean in percent."""
    return f"{100 * mean(values):.1f}"


def f1_text(group: Sequence[Run]) -> str:
    """Mean F1, and each where there are several."""
    return with_each([100 * run["overall_f1"] for run in group], "{:.1f}")


def ece_text(group: Sequence[Run]) -> str:
    """Mean calibration error, and each where there are several."""
    return with_each([run["overall_ece"] for run in group], "{:.3f}")


def calibrated_text(group: Sequence[Run]) -> str:
    """The same after calibration, or a dash where no dev rows were kept to fit it on."""
    errors = [run["calibrated_ece"] for run in group]
    return "-" if None in errors else with_each(errors, "{:.3f}")


def with_each(values: Sequence[float], form: str) -> str:
    """The mean of some values, and all of them in brackets where there are several."""
    each = [form.format(value).removeprefix("0") for value in values]
    average = form.format(mean(values)).removeprefix("0")
    return average if len(each) == 1 else f"{average} ({' '.join(each)})"


def headed(rows: Sequence[Sequence[str]]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """The first row as a header, and the others."""
    return rows[0], rows[1:]


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


MAKERS: dict[str, Callable[[str], str]] = {
    "choice": choice_table,
    "corpus": corpus_table,
    "method": method_table,
    "full": full_table,
    "recipes": recipes_table,
    "speed": speed_table,
    "reliability": reliability_picture,
    "corpora": lambda _: markdown_table(*headed(corpora_table())),
    "sentences": lambda corpus: markdown_table(*headed(small_table(corpus))),
    "smallest": lambda split: markdown_table(*headed(smallest_table(split))),
}

if __name__ == "__main__":
    main()

"""Train, test and document the model that one recipe describes.

hf-spanner train                                  the quickstart: a small corpus, a small encoder, a few minutes
hf-spanner train RECIPE.yaml training.seed=7      any recipe, with settings that win over the file
hf-spanner train --starter bopn > my.yaml         a commented recipe for files of your own

`accelerate launch -m hf_spanner train RECIPE.yaml` trains on several devices.
"""

import argparse
import json
import logging
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, cast

from datasets import Dataset
from transformers import AutoTokenizer, PreTrainedTokenizerBase, set_seed
from transformers.utils import logging as transformers_logging

from hf_spanner import METHODS, Recipe, SpanNERModel, SpanNERTrainer
from hf_spanner.calibration.fitting import (
    MIN_PREDICTIONS,
    fit_source,
    fitted_calibration,
    rows_fingerprint,
    scored_predictions,
)
from hf_spanner.commands.options import command_parser
from hf_spanner.core.text_encoder import SOURCE_ARGUMENTS
from hf_spanner.core.words import split_words, surface_offsets
from hf_spanner.data.report import data_report
from hf_spanner.data.schema import label_set
from hf_spanner.methods import trainer_of
from hf_spanner.metrics.span_ner.scoring import score_spans, score_text
from hf_spanner.quickstart import RECIPE, STARTER
from hf_spanner.training.model_card import label_table, write_model_card
from hf_spanner.training.progress import nothing_found
from hf_spanner.training.recipe import plain_yaml
from hf_spanner.training.whole_files import write_whole

METHODS_FOLDER = files("hf_spanner.methods")
NUM_SHOWN = 3


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a recipe, or print one to start from."""
    given = parsed_arguments(arguments)
    if given.starter is None:
        run(read_recipe(given.settings))
    else:
        print(starter_recipe(given.starter), end="")


def run(recipe: Recipe) -> None:
    """Train, test and document the model of a recipe."""
    args = recipe.training
    quiet_noise(is_main=args.process_index == 0)
    set_seed(args.seed)
    with args.main_process_first(desc="reading the data"):
        rows = recipe.data.load()
    if recipe.calibration is not None and rows_fingerprint(rows["dev"]) == rows_fingerprint(rows["test"]):
        raise ValueError("calibration must be left out where data.dev and data.test are the same rows")
    report = data_report(rows)
    tokenizer, model = tokenizer_and_model(recipe, label_set(rows["train"]))
    notes = data_notes(rows, model)
    if args.process_index == 0:
        print(report, *notes, sep="\n", flush=True)
    trainer = trainer_of(recipe.method)(
        model=model, args=args, train_dataset=rows["train"], eval_dataset=rows["dev"], processing_class=tokenizer
    )
    started = time.monotonic()
    trainer.train(resume_from_checkpoint=recipe.resume or None)
    minutes = (time.monotonic() - started) / 60
    if recipe.calibration is not None:
        model.config.calibration = dev_calibration(recipe, trainer, rows["dev"])
    tested = trainer.predict(rows["test"])
    scores = score_spans(tested.predictions, tested.label_ids)
    trainer.save_model(args.output_dir, _internal_call=True)  # it is uploaded below, with scores and card
    trainer.save_state()  # with all curves: those of a checkpoint end at its own step, and only the best is kept
    if trainer.is_world_process_zero():
        folder = Path(cast(str, args.output_dir))
        write_scores(folder / "scores.json", scores | {"minutes": minutes, "seed": args.seed})
        write_model_card(folder, recipe, model.config, scores, report, notes)
        print(summary(rows["test"], tested.predictions, scores, minutes, folder))
        if not scores["num_predicted"] and args.eval_strategy == "no":
            print(nothing_found(trainer.state, args, model.config.threshold))
    if args.push_to_hub:
        trainer.push_to_hub()
    trainer.end()


def parsed_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    parser = command_parser("train", __doc__)
    parser.usage = "hf-spanner train [RECIPE.yaml] [SECTION.KEY=VALUE ...]\n       hf-spanner train --starter METHOD"
    parser.add_argument(
        "settings", nargs="*", metavar="RECIPE.yaml, SECTION.KEY=VALUE", help="the quickstart if left out"
    )
    parser.add_argument(
        "--starter",
        choices=[method for method in METHODS if (METHODS_FOLDER / method / "starter.yaml").is_file()],
        help="print a recipe for your own files with this method, and train nothing",
    )
    given = parser.parse_args(arguments)
    if given.starter is not None and given.settings:
        parser.error(f"--starter takes no recipe and no settings, got {' '.join(given.settings)}")
    return given


def starter_recipe(method: str) -> str:
    """A commented recipe of a method for files of one's own."""
    path = METHODS_FOLDER / method / "starter.yaml"
    fragments = plain_yaml(path.read_text(encoding="utf-8"), str(path))
    texts = {name: text.rstrip("\n") for name, text in fragments.items()}
    return Template(STARTER.read_text(encoding="utf-8")).substitute(texts, method=method)


def read_recipe(settings: Sequence[str]) -> Recipe:
    """The recipe of a command line: a file, or else the quickstart, and settings that win over it."""
    if settings and ("=" not in settings[0] or Path(settings[0]).is_file()):
        return Recipe.from_yaml(settings[0], settings[1:])
    return Recipe.from_yaml(RECIPE, settings)


def quiet_noise(*, is_main: bool) -> None:
    """Keep what concerns the data; silence the advice of libraries, and every process but the main one."""
    transformers_logging.set_verbosity_error()
    logging.getLogger("hf_spanner").setLevel(logging.WARNING if is_main else logging.ERROR)


def tokenizer_and_model(recipe: Recipe, labels: Sequence[str]) -> tuple[PreTrainedTokenizerBase, SpanNERModel]:
    """A new model on the recipe's encoder, or the model of `init_from` made ready for these labels."""
    model_class = METHODS[recipe.method]
    source = recipe.init_from or recipe.encoder_folder
    # words are tokenised one by one, for which byte-level tokenizers need the blank before the first
    options = recipe.encoder_options
    download = {name: value for name, value in options.items() if name in SOURCE_ARGUMENTS}
    tokenizer = AutoTokenizer.from_pretrained(source, add_prefix_space=True, **download)
    if recipe.init_from is None:
        return tokenizer, model_class.from_encoder(source, labels=labels, **recipe.model | options)
    id2label = dict(enumerate(labels))
    label2id = {label: index for index, label in id2label.items()}
    saved = model_class.config_class.from_pretrained(source, **download).to_dict()
    if saved["split_hyphens"] != recipe.data.options["split_hyphens"]:
        raise ValueError(f"model.split_hyphens must be {saved['split_hyphens']}, as the model of init_from reads words")
    saved |= {"calibration": None, "temperature": 1.0, "threshold": 0.0}  # these belonged to other weights
    config = model_class.config_class.from_dict(saved | recipe.model | {"id2label": id2label, "label2id": label2id})
    return tokenizer, model_class.from_pretrained(source, config=config, ignore_mismatched_sizes=True, **options)


def data_notes(rows: Mapping[str, Any], model: SpanNERModel) -> list[str]:
    """What the method cannot reach in each split, and how far raw text would give the same words."""
    reach, agreement = [], []
    for split, split_rows in rows.items():
        lost, known = unreachable_entities(split_rows, model)
        reach.append(f"{lost:,} of {known:,} in {split}")
        words, entities = splitter_agreement(split_rows, split_hyphens=model.config.split_hyphens)
        agreement.append(f"{words:.2%} / {entities:.2%} in {split}")
    return [
        f"entities that the method cannot reach: {', '.join(reach)}",
        f"raw text gives the same words / entity borders for {', '.join(agreement)}",
    ]


def unreachable_entities(rows: Iterable[Mapping[str, Any]], model: SpanNERModel) -> tuple[int, int]:
    """How many entities the method cannot produce, and of how many: those whose label the model knows."""
    lost = known = 0
    label2id = cast(dict[str, int], model.config.label2id)
    for row in rows:
        gold = [
            (entity["start"], entity["end"], label2id[entity["label"]])
            for entity in row["entities"]
            if entity["label"] in label2id
        ]
        lost += model.unreachable(gold)
        known += len(gold)
    return lost, known


def splitter_agreement(rows: Iterable[Mapping[str, Any]], *, split_hyphens: bool) -> tuple[float, float]:
    """Agreement of the word splitter for raw text with the words of a corpus.

    Args:
        rows: Rows, whose words are joined with blanks and split again.
        split_hyphens: As in `split_words`.

    Returns:
        Share of the corpus's words that come out as they were, and share of its entities whose two borders are borders
        of the new words; 1.0 where there are none.
    """
    num_words = same_words = num_entities = same_entities = 0
    for row in rows:
        offsets = surface_offsets(row["tokens"])
        new_offsets = split_words(" ".join(row["tokens"]), split_hyphens=split_hyphens)
        starts, ends = {start for start, _ in new_offsets}, {end for _, end in new_offsets}
        num_words += len(offsets)
        same_words += len(set(offsets) & set(new_offsets))
        num_entities += len(row["entities"])
        same_entities += sum(
            offsets[entity["start"]][0] in starts and offsets[entity["end"] - 1][1] in ends
            for entity in row["entities"]
        )
    return same_words / num_words if num_words else 1.0, same_entities / num_entities if num_entities else 1.0


def dev_calibration(recipe: Recipe, trainer: SpanNERTrainer, rows: Any) -> dict[str, Any] | None:
    """The map that the recipe asks for, fitted on raw scores of the dev rows; None, which is said, if they are few."""
    output = trainer.predict(rows, decoding={"threshold": 0.0})
    predictions = scored_predictions(output.predictions, output.label_ids)
    assert recipe.calibration is not None
    if len(predictions.scores) < MIN_PREDICTIONS:
        if trainer.is_world_process_zero():
            few = f"{len(predictions.scores)} predictions on data.dev, {MIN_PREDICTIONS} are needed"
            print(f"no calibration, scores stay raw: {few}", file=sys.stderr)
        return None
    return fitted_calibration(recipe.calibration, predictions, fitted_on=fit_source("validation", rows))


def write_scores(path: Path, scores: Mapping[str, Any]) -> None:
    """Write scores as JSON."""
    write_whole(path, json.dumps(scores, indent=2) + "\n")


def summary(
    rows: Dataset,
    predicted: Sequence[Sequence[Mapping[str, Any]]],
    scores: Mapping[str, Any],
    minutes: float,
    folder: Path,
) -> str:
    """What a run prints at its end: scores, some test sentences with their entities, and how to use the model."""
    with_entities = [place for place, entities in enumerate(predicted) if len(entities) > 1]
    places = with_entities or list(range(len(rows)))
    shown = [places[len(places) * part // NUM_SHOWN] for part in range(min(NUM_SHOWN, len(places)))]
    lines = [""]
    if scores["num_predicted"]:
        lines += [*(rendered_sentence(rows[place]["tokens"], predicted[place]) for place in shown), ""]
    lines += [label_table(scores), ""]
    lines.append(
        f"test: strict F1 {100 * scores['overall_f1']:.2f}, precision {100 * scores['overall_precision']:.2f}, recall "
        f"{100 * scores['overall_recall']:.2f}, ECE {score_text(scores['overall_ece'])}; "
        f"trained in {minutes:.1f} minutes"
    )
    lines.append(f"model, README.md (model card) and scores.json: {folder}")
    lines.append(
        "use it: import hf_spanner; from transformers import pipeline; "
        f'pipeline("span-ner", model="{folder.as_posix()}")("Your text.")'
    )
    return "\n".join(lines)


def rendered_sentence(words: Sequence[str], entities: Sequence[Mapping[str, Any]]) -> str:
    """The words with each entity in brackets, its label and score after the closing one.

    Example:
        >>> rendered_sentence(["in", "Oslo", "."], [{"start": 1, "end": 2, "label": "LOC", "score": 0.98}])
        'in [Oslo](LOC 0.98) .'
    """
    pieces = list(words)
    for entity in sorted(entities, key=lambda entity: entity["end"] - entity["start"]):
        first, last = entity["start"], entity["end"] - 1
        pieces[first] = "[" + pieces[first]
        pieces[last] += f"]({entity['label']} {entity['score']:.2f})"
    return " ".join(pieces)

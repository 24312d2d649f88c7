"""The model card of a run: metadata for the Hub, scores, data, recipe, versions and limits, in one README.md."""

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from enum import Enum
from importlib import import_module
from importlib.metadata import version
from io import StringIO
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, TypeGuard

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from ruamel.yaml import YAML

from hf_spanner.core.configuration_span_ner import VERSION, SpanNERConfig
from hf_spanner.data.report import DataReport
from hf_spanner.data.schema import one_line
from hf_spanner.metrics.span_ner.scoring import score_text
from hf_spanner.training.arguments import SpanNERTrainingArguments
from hf_spanner.training.recipe import PACKAGE_PREFIX, Recipe
from hf_spanner.training.whole_files import write_whole

TEMPLATE = Path(__file__).with_name("model_card_template.md")
HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
LIBRARIES = ("torch", "transformers", "datasets", "huggingface_hub")
# Always shown, whether or not they differ from the method's defaults.
MAIN_ARGUMENTS = (
    "learning_rate",
    "head_learning_rate",
    "num_train_epochs",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "warmup_steps",
    "weight_decay",
    "max_grad_norm",
    "seed",
)
# Where and how a run was carried out, not what was trained; some are filled by the library itself.
LEFT_OUT_ARGUMENTS = (
    "accelerator_config",
    "activation_checkpointing",
    "dataloader_pin_memory",
    "debug",
    "disable_tqdm",
    "do_eval",
    "do_predict",
    "do_train",
    "gradient_checkpointing",
    "greater_is_better",
    "hub_model_id",
    "hub_token",
    "output_dir",
    "report_to",
    "resume_from_checkpoint",
    "run_name",
    "use_cpu",
)
# What of an encoder's loading belongs to the run; where its files are kept and who asks for them does not.
CARD_OPTIONS = ("revision", "dtype", "attn_implementation", "trust_remote_code")
# Names of files and folders that do not say which corpus they hold.
NO_NAMES = {"", "..", "~", "test", "testing", "eval", "evaluation", "dev", "val", "valid", "validation", "train"}
METRICS = (
    ("f1", "Strict F1", "overall_f1"),
    ("precision", "Strict precision", "overall_precision"),
    ("recall", "Strict recall", "overall_recall"),
    ("ece", "Expected calibration error, 10 bins", "overall_ece"),
)
OVERLAP_LIMITS = {
    "flat": "Entities do not overlap: of two that do, the one with the higher score is given.",
    "nested": "An entity may lie inside another; of two that cross, the one with the higher score is given.",
    "any": "Entities may overlap in any way; nothing is removed.",
}


def write_model_card(
    folder: str | Path,
    recipe: Recipe,
    config: SpanNERConfig,
    scores: Mapping[str, Any],
    report: DataReport,
    notes: Sequence[str] = (),
) -> Path:
    """Write the card of a trained model as README.md, valid for the Hub; paths of this machine are left out.

    Args:
        folder: The model's folder.
        recipe: What was trained.
        config: The model's configuration.
        scores: All scores of the test split, as `score_spans` gives them.
        report: The data report.
        notes: Further lines on the data, such as what the method cannot reach.

    Returns:
        The file written.
    """
    assert recipe.training.output_dir is not None
    assert config.id2label is not None
    name = Path(recipe.training.output_dir).name
    card = ModelCard.from_template(
        card_data(recipe, scores, name),
        template_path=str(TEMPLATE),
        name=name,
        method=(import_module(f"hf_spanner.methods.{recipe.method}").__doc__ or recipe.method).strip(),
        encoder=shareable(recipe.encoder),
        init_from=shareable(recipe.init_from),
        data=data_name(recipe),
        labels=[code_span(label) for label in config.id2label.values()],
        scores=scores,
        label_table=label_table(scores),
        ece=score_text(scores["overall_ece"]),
        bin_table=bin_table(scores["reliability"]),
        report=str(report),
        notes=list(notes),
        recipe=recipe_text(recipe),
        paper=recipe.paper,
        versions=versions(),
        limits=limits(config, knows_documents=bool(report.splits["train"].documents)),
    )
    path = Path(folder) / "README.md"
    write_whole(path, str(card))
    return path


def card_data(recipe: Recipe, scores: Mapping[str, Any], name: str) -> ModelCardData:
    """Metadata of the card. Language and licence, which a recipe does not know, are left out rather than guessed."""
    data = data_name(recipe)
    results = [
        EvalResult(
            task_type="token-classification",
            task_name="Span-based named entity recognition",
            dataset_type=recipe.data.source if _is_hub_name(recipe.data.source) else data,
            dataset_name=data,
            dataset_split="test",
            metric_type=kind,
            metric_name=title,
            metric_value=scores[key],
        )
        for kind, title, key in METRICS
        if scores[key] is not None
    ]
    return ModelCardData(
        model_name=name,
        base_model=recipe.encoder if _is_hub_name(recipe.encoder) else None,
        library_name="transformers",
        pipeline_tag="token-classification",
        tags=["span-ner", "nested-ner", "named-entity-recognition", "custom_code", recipe.method],
        metrics=["f1", "precision", "recall"],
        eval_results=results,
    )


def data_name(recipe: Recipe) -> str:
    """Name of the corpus: the data set on the Hub, or the nearest folder around the test file that is no split's name.

    If no folder has such a name, it is that of the test file, unless this is the name of a split alone. Of an absolute
    path only the last folder counts: the others tell of this machine.
    """
    if _is_hub_name(recipe.data.source):
        return str(recipe.data.source)
    path = PurePosixPath(Path(recipe.data.test or recipe.data.source or "").as_posix())
    folders = [*path.parents] if recipe.data.test else [path, *path.parents]
    if path.is_absolute() or PureWindowsPath(path).is_absolute():
        folders = folders[:1]
    names = [*(folder.name for folder in folders), path.name.split(".")[0]]
    return next((name for name in names if name.lower() not in NO_NAMES), "data without a name")


def code_span(text: str) -> str:
    """A text as code inside a line of Markdown."""
    text = one_line(text)
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def label_table(scores: Mapping[str, Any]) -> str:
    """Markdown table with a line for each label, then micro, macro and boundaries alone."""
    rows = [
        [label, *_percentages(label_scores, ""), f"{label_scores['support']:,}", f"{label_scores['num_predicted']:,}"]
        for label, label_scores in scores["per_label"].items()
    ]
    counts = [f"{scores['num_gold']:,}", f"{scores['num_predicted']:,}"]
    rows.append(["all (micro)", *_percentages(scores, "overall_"), *counts])
    rows.append(["mean of labels (macro)", *_percentages(scores, "macro_"), "", ""])
    rows.append(["boundaries alone", *_percentages(scores, "boundary_"), "", ""])
    return markdown_table(["label", "precision", "recall", "F1", "gold", "predicted"], rows)


def bin_table(bins: Sequence[Mapping[str, Any]]) -> str:
    """Markdown table of the reliability bins that hold spans."""
    rows = [
        [
            f"{score_bin['low']:.2f} to {score_bin['high']:.2f}",
            f"{score_bin['count']:,}",
            f"{score_bin['confidence']:.3f}",
            f"{score_bin['precision']:.3f}",
        ]
        for score_bin in bins
        if score_bin["count"]
    ]
    return markdown_table(["score", "spans", "mean score", "precision"], rows)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns line up also as plain text; the first column is text, the others are numbers."""
    lines = [list(header), *([one_line(cell).replace("|", "\\|") for cell in row] for row in rows)]
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])])
    return "\n".join(
        "| " + " | ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) + " |" for line in lines
    )


def recipe_text(recipe: Recipe) -> str:
    """The recipe as YAML: all of the model's fields that it sets, and the training arguments that matter or differ."""
    files = {name: shareable(getattr(recipe.data, name)) for name in ("source", "train", "dev", "test")}
    options = {name: value for name, value in recipe.data.options.items() if name != "split_hyphens"}
    values = {
        "method": recipe.method,
        "encoder": shareable(recipe.encoder),
        "encoder_options": {name: value for name, value in recipe.encoder_options.items() if name in CARD_OPTIONS}
        or None,
        "init_from": shareable(recipe.init_from),
        "data": {name: file for name, file in files.items() if file is not None} | options,
        "model": dict(recipe.model),
        "training": training_values(recipe.training),
        "calibration": recipe.calibration,
    }
    text = StringIO()
    YAML(pure=True).dump({name: value for name, value in values.items() if value is not None}, text)
    return text.getvalue().strip()


def training_values(arguments: SpanNERTrainingArguments) -> dict[str, Any]:
    """Training arguments by name: the main ones, and those that differ from the method's defaults."""
    values = {}
    for argument in fields(arguments):
        value = vars(arguments).get(argument.name)
        value = value.value if isinstance(value, Enum) else value
        differs = argument.init and value != _default(argument) and argument.name not in LEFT_OUT_ARGUMENTS
        if argument.name in MAIN_ARGUMENTS or differs:
            values[argument.name] = shareable(value) if isinstance(value, str) else value
    return values


def limits(config: SpanNERConfig, *, knows_documents: bool) -> list[str]:
    """What the model cannot do, according to its configuration and to whether its training rows named documents."""
    lines = [OVERLAP_LIMITS[config.overlap]]
    if not config.multi_label:
        lines.append("One label a span: of two labels on the same words one at most is found.")
    lines.append(
        f"A text of more than {config.window_size} tokens is read in windows; entities longer than "
        f"{config.window_overlap} tokens may be missed there."
    )
    if config.context_sentences and not knows_documents:
        lines.append(
            "Trained and scored on single sentences: its rows named no document, so the "
            f"{config.context_sentences} neighbouring sentences of `context_sentences` were never read."
        )
    elif config.context_sentences:
        lines.append(
            f"Trained and scored with up to {config.context_sentences} neighbouring sentences on each side as context; "
            "give the pipeline `documents` to read them too."
        )
    lines.append("Entities begin and end at words. Raw text is split by rules; entities inside a word are not found.")
    if config.calibration is not None:
        kind, fitted_on = config.calibration["kind"], config.calibration["fitted_on"]
        lines.append(
            f"Scores come from a map to probabilities ({kind}) fitted on {fitted_on['num_rows']:,} rows of "
            f"{fitted_on['name']}."
        )
    lines.append(
        "It knows the labels, the language and the kind of text it was trained on. Scores are calibrated there only."
    )
    return lines


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that a result depends on."""
    ours = {"hf_spanner": VERSION, "python": platform.python_version()}
    return ours | {name: version(name).split("+")[0] for name in LIBRARIES}


def shareable(value: str | None) -> str | None:
    """A path without what it tells of this machine: of an absolute path, only the last folder and the name stay."""
    if value is None or value.startswith(PACKAGE_PREFIX):
        return value
    if value.startswith("~") or PurePosixPath(value).is_absolute() or PureWindowsPath(value).is_absolute():
        return "/".join(PureWindowsPath(value).parts[1:][-2:])
    return value


def _is_hub_name(source: str | None) -> TypeGuard[str]:
    """Whether a source is the name of a repository on the Hub and no folder here."""
    if source is None or source.startswith(PACKAGE_PREFIX) or Path(source).exists():
        return False
    return HUB_NAME.fullmatch(source) is not None


def _default(argument: Field) -> Any:
    """Default of a field, enumerations as their values."""
    value = argument.default if argument.default_factory is MISSING else argument.default_factory()
    return value.value if isinstance(value, Enum) else value


def _percentages(scores: Mapping[str, Any], prefix: str) -> list[str]:
    return [f"{100 * scores[prefix + name]:.2f}" for name in ("precision", "recall", "f1")]

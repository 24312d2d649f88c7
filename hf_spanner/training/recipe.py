"""Recipes: one YAML file that says which model is trained on what, read strictly."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from huggingface_hub.constants import HF_HOME
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from hf_spanner.core.calibration import PARAMETERS
from hf_spanner.core.text_encoder import SOURCE_ARGUMENTS, float_type
from hf_spanner.data.lines import decoded
from hf_spanner.data.policy import ReadChoices
from hf_spanner.data.readers import load_rows
from hf_spanner.methods import METHODS, training_arguments_of
from hf_spanner.training.arguments import SpanNERTrainingArguments

PACKAGE_PREFIX = "package:"
SECTIONS = ("data", "model", "training", "paper", "encoder_options")
MERGED_SECTIONS = ("data", "model", "training", "encoder_options")
SPLITS = {"train": "train", "dev": "validation", "test": "test"}
READER_FIELDS = ("subset", "format", *(name for name in ReadChoices.__annotations__ if name != "split_hyphens"))


@dataclass(frozen=True)
class RecipeData:
    """Where the rows of a recipe come from.

    Args:
        source: A folder with one file a split, or a data set name on the Hub.
        train: A file, in place of `source`; as `package:<import name>/<file>` one inside an installed package.
        dev: A file, in place of `source`.
        test: A file, in place of `source`.
        options: Options of `load_rows` by name, such as `scheme` or `on_error`.
    """

    source: str | None = None
    train: str | None = None
    dev: str | None = None
    test: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> dict[str, Any]:
        """Rows of `train`, `dev` and `test`."""
        rows = {}
        for name, split in SPLITS.items():
            path = {"train": self.train, "dev": self.dev, "test": self.test}[name]
            if path is not None:
                rows[name] = load_rows(installed_path(path), **self.options)
            elif self.source is not None:
                rows[name] = load_rows(self.source, split=split, **self.options)
            else:
                raise ValueError(f"data.{name} must name a file, or data.source a folder or data set")
        return rows


@dataclass(frozen=True)
class Recipe:
    """One run: method, encoder, data, model fields and training arguments.

    Args:
        method: A key of `METHODS`.
        encoder: Hub name, folder, or `package:<import name>/<folder>` for one inside an installed package.
        encoder_options: How encoder and tokenizer, or the model of `init_from`, are loaded: `revision`, `dtype`,
            `attn_implementation` and whatever else `from_encoder` takes for it.
        data: Where the rows come from.
        model: Fields of the method's configuration.
        training: The method's training arguments.
        paper: What the paper reports, `f1` and `where`.
        calibration: Map from raw score to probability that is fitted on the dev rows after training, one of
            `temperature`, `platt` and `isotonic`, with `model.temperature` 1; None keeps raw scores.
        init_from: Folder or name of a saved model to start from, in place of a new head; its labels may differ.
        resume: Go on from the last checkpoint in the output folder.
    """

    method: str
    encoder: str
    data: RecipeData
    model: dict[str, Any]
    training: SpanNERTrainingArguments
    encoder_options: dict[str, Any] = field(default_factory=dict)
    paper: dict[str, Any] | None = None
    calibration: str | None = None
    init_from: str | None = None
    resume: bool = False

    @classmethod
    def from_yaml(cls, path: str | Path, overrides: Sequence[str] = ()) -> Self:
        """Read a recipe, laid over the recipe that it names as its `base`, if it does.

        Args:
            path: YAML file; no tags, no import paths. `base` is the name of a file in the same folder, which may have a
                base itself; what the file leaves out, also within data, model and training, is as in the base.
            overrides: Settings that win over the file, such as `training.seed=7`; values are YAML.

        Raises:
            ValueError: If a key is unknown (the message names the nearest known one) or given twice, a value is missing
                or does not fit, a data path of the file leads upwards out of the working folder, or a base is not in
                the same folder or its own base.
        """
        values = _merged_values([Path(path)])
        for override in overrides:
            _override(values, override)
        _check_sections(values, f"{path} with {', '.join(overrides)}")
        return cls._from_values(values, path)

    @classmethod
    def _from_values(cls, values: dict[str, Any], path: str | Path) -> Self:
        _check_keys(values, [known.name for known in fields(cls)], path, "")
        for name in ("method", "data", "encoder"):
            if name not in values:
                raise ValueError(f"{path}: {name} is missing")
        method, kind = values["method"], values.get("calibration")
        if not isinstance(method, str) or method not in METHODS:
            raise ValueError(f"{path}: method must be one of {', '.join(METHODS)}, got {method!r}")
        if kind is not None and (not isinstance(kind, str) or kind not in PARAMETERS):
            raise ValueError(f"{path}: calibration must be one of {', '.join(PARAMETERS)}, got {kind!r}")
        data, model, training = (dict(values.get(name) or {}) for name in ("data", "model", "training"))
        options = dict(values.get("encoder_options") or {})
        _check_keys(options, [*SOURCE_ARGUMENTS, "attn_implementation", "dtype"], path, "encoder_options.")
        float_type(options.get("dtype"))
        _check_keys(data, [*SPLITS, "source", *READER_FIELDS], path, "data.")
        _check_keys(model, list(METHODS[method].config_class().to_dict()), path, "model.")
        if kind is not None and model.get("temperature", 1) != 1:
            raise ValueError(
                f"{path}: model.temperature must be 1 with calibration {kind}, which takes its place, "
                f"got {model['temperature']!r}"
            )
        arguments = training_arguments_of(method)
        _check_keys(training, [known.name for known in fields(arguments) if known.init], path, "training.")
        if "resume_from_checkpoint" in training:
            raise ValueError(f"{path}: training.resume_from_checkpoint has no effect; write resume: true")
        training.setdefault("output_dir", f"outputs/{method}/{Path(path).stem}")
        training["output_dir"] = str(training["output_dir"]).replace("$HF_HOME", HF_HOME)
        reading = {name: data.pop(name) for name in READER_FIELDS if name in data}
        reading["split_hyphens"] = model.get("split_hyphens", False)
        sections: dict[str, Any] = {
            "data": RecipeData(**data, options=reading),
            "model": model,
            "training": arguments(**training),
            "encoder_options": options,
        }
        return cls(**values | sections)

    @property
    def encoder_folder(self) -> str:
        """The encoder as `from_pretrained` takes it; a folder inside an installed package is looked up."""
        return installed_path(self.encoder)


def installed_path(source: str) -> str:
    """The source itself, or the path of what `package:<import name>/<path>` names inside an installed package.

    Raises:
        ValueError: If the package is not installed, or holds no such file or folder.
    """
    if not source.startswith(PACKAGE_PREFIX):
        return source
    package, _, inner = source.removeprefix(PACKAGE_PREFIX).partition("/")
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"{source} needs the package {package}, which is not installed")
    path = Path(spec.submodule_search_locations[0]) / inner
    leaves = ".." in Path(inner).parts or Path(inner).is_absolute()
    if leaves or not path.exists():
        raise ValueError(f"{source}: {package} has no file or folder {inner!r}")
    return str(path)


def plain_yaml(text: str, source: str) -> Any:
    """The value of a text in YAML 1.2, without tags and with each key once.

    Args:
        text: The YAML.
        source: What it is, for the message.

    Raises:
        ValueError: If it is something else.
    """
    try:
        return YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        raise ValueError(f"{source} is not plain YAML, line {error.problem_mark.line + 1}: {error.problem}") from error
    except RecursionError as error:
        raise ValueError(f"{source} is not plain YAML that can be read: it is nested too deeply") from error
    except YAMLError as error:
        raise ValueError(f"{source} is not plain YAML: {error}") from error


def _merged_values(chain: Sequence[Path]) -> dict[str, Any]:
    """Values of the last file of a chain, laid over those of its base; each file of the chain is the base before it."""
    path = chain[-1]
    values = plain_yaml(decoded(path.read_bytes(), str(path)), str(path))
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold keys and values, got {type(values).__name__}")
    _check_sections(values, path)
    _check_paths(values, path)
    if "base" not in values:
        return values
    base = values.pop("base")
    if not isinstance(base, str) or Path(base).name != base or not (path.parent / base).is_file():
        raise ValueError(f"{path}: base must be the name of a recipe in the same folder, got {base!r}")
    if path.parent / base in chain:
        raise ValueError(f"{path}: base must not lead back to a recipe that it is the base of, got {base!r}")
    merged = _merged_values([*chain, path.parent / base])
    sections = {name: (merged.get(name) or {}) | (values[name] or {}) for name in MERGED_SECTIONS if name in values}
    return merged | values | sections


def _check_sections(values: Mapping[str, Any], source: str | Path) -> None:
    for name in SECTIONS:
        if values.get(name) is not None and not isinstance(values[name], dict):
            raise ValueError(f"{source}: {name} must hold keys and values, got {values[name]!r}")


def _check_keys(values: Mapping[str, Any], known: Collection[str], path: str | Path, prefix: str) -> None:
    for key in values:
        if key not in known:
            near = get_close_matches(str(key), known, n=1, cutoff=0.0)[0]
            raise ValueError(f"{path}: unknown key {prefix}{key}; the nearest known key is {prefix}{near}")


def _check_paths(values: Mapping[str, Any], path: str | Path) -> None:
    """A recipe may come from anywhere, so its own data paths stay inside the working folder or are absolute."""
    for name, value in (values.get("data") or {}).items():
        if isinstance(value, str) and ".." in Path(value).parts:
            raise ValueError(
                f"{path}: data.{name} must be a path without '..', got {value!r}; give it on the command line"
            )


def _override(values: dict[str, Any], override: str) -> None:
    name, equals, text = override.partition("=")
    if not equals:
        raise ValueError(f"an override has the form training.seed=7, got {override!r}")
    *sections, key = name.split(".")
    place = values
    for section in sections:
        if place.get(section) is None:
            place[section] = {}
        place = place[section]
        if not isinstance(place, dict):
            raise ValueError(f"{name}: {section} is a value, not a section")
    place[key] = plain_yaml(text, override)

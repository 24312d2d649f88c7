"""Rules of every field, labels, versions, dropout, window, decoding, and what a saved configuration holds."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from transformers import AutoConfig, BertConfig, DistilBertConfig, PreTrainedConfig, RobertaConfig

from hf_spanner import METHODS, SpanNERConfig
from hf_spanner.core import configuration_span_ner
from hf_spanner.core.configuration_span_ner import VERSION
from hf_spanner.core.decoding import Decoding
from hf_spanner.core.field_rules import Interval, Size, in_words
from hf_spanner.methods.boundary_smoothing import BoundarySmoothingConfig

CONFIGS = [SpanNERConfig, *(model.config_class for model in METHODS.values())]
RULES = [(config, name) for config in CONFIGS for name in config.field_rules]


def outside(kind: Any) -> list[Any]:
    """Values that an annotation must refuse; if it has a rule of its own, those that no annotation admits."""
    if kind is bool or get_origin(kind) is Literal:
        return ["no such choice", 17, *([0, "true"] if kind is bool else [])]
    type_of_number, *rules = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    rule = next(iter(rules), None)
    if not isinstance(rule, Interval):
        return [float("nan"), b"no such value"]
    values: list[Any] = ["1", float("nan"), True, float("inf"), [1], rule.lowest - 1, rule.highest + 1]
    if type_of_number is int:
        values.append(rule.lowest + 0.5)
    if rule.excludes_lowest:
        values.append(rule.lowest)
    if rule.excludes_highest:
        values.append(rule.highest)
    return values


@pytest.mark.parametrize(("config", "name"), RULES)
def test_values_that_are_not_allowed_are_refused_by_name(config: type[SpanNERConfig], name: str) -> None:
    """They are refused in the constructor and on assignment, which then changes nothing."""
    made = config()
    before = getattr(made, name)
    for value in outside(config.field_rules[name]):
        with pytest.raises(ValueError, match=name):
            config(**{name: value})
        with pytest.raises(ValueError, match=name):
            setattr(made, name, value)
    assert getattr(made, name) == before


@pytest.mark.parametrize(("config", "name"), RULES)
def test_the_message_names_field_value_and_what_is_allowed(config: type[SpanNERConfig], name: str) -> None:
    made = config()
    with pytest.raises(ValueError, match=name) as error:
        setattr(made, name, b"odd")
    assert str(error.value) == f"{name} must be {in_words(config.field_rules[name])}, got b'odd'"


@pytest.mark.parametrize("config", CONFIGS)
def test_every_own_field_has_a_rule(config: type[SpanNERConfig]) -> None:
    """Every number has a range, except the one that is the encoder's."""
    own_fields = {field.name for field in dataclasses.fields(config)} - {
        field.name for field in dataclasses.fields(PreTrainedConfig)
    }
    assert own_fields - set(config.field_rules) == {"encoder_config"}
    free = {name for name, kind in config.field_rules.items() if re.search(r"(integer|number)(?! in )", in_words(kind))}
    assert free == {"pad_token_id"}


def test_relations_are_checked_again_before_saving(tmp_path: Path) -> None:
    config = SpanNERConfig(id2label={0: "A"}, window_size=8)
    config.window_overlap = 8
    with pytest.raises(ValueError, match="window_overlap must be below window_size = 8, got 8"):
        config.save_pretrained(tmp_path)
    config.window_overlap = 7
    config.threshold = {"B": 0.5}
    with pytest.raises(ValueError, match="threshold must be a number or name each of A, got {'B': 0.5}"):
        config.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="threshold must be a number or name each of A, got {'B': 0.5}"):
        config.decoding()
    config.threshold, config.id2label = 0.0, {0: "B"}
    with pytest.raises(ValueError, match="label2id must be the inverse of id2label, {'B': 0}, got {'A': 0}; to rename"):
        config.save_pretrained(tmp_path)
    assert not (tmp_path / "config.json").exists()
    config.label2id = {"B": 0}
    config.window_size = config.window_overlap = None
    config.save_pretrained(tmp_path)
    assert SpanNERConfig.from_pretrained(tmp_path).id2label == {0: "B"}
    assert (config.window_size, config.window_overlap) == (510, 127)


HOSTILE = [
    ({"num_labels": -1}, "num_labels"),
    ({"num_labels": 3, "id2label": {"0": "A", "1": "B"}}, "num_labels"),
    ({"id2label": {"0": "A", "1": "A"}}, "id2label"),
    ({"id2label": {0: "A", 2: "B"}}, "id2label"),
    ({"temperature": 0}, "temperature"),
    ({"calibration": {"kind": "platt"}}, "calibration"),
    ({"threshold": "NaN"}, "threshold"),
    ({"threshold": float("nan")}, "threshold"),
    ({"lstm_size": 10**12}, "lstm_size"),
    ({"lstm_size": 7}, "lstm_size"),
    ({"window_size": 10**9}, "window_size"),
    ({"window_size": 511}, "window_size"),
    ({"encoder_config": {"model_type": "bert", "max_position_embeddings": 2}}, "window_size"),
    ({"window_size": 8, "window_overlap": 8}, "window_overlap"),
    ({"num_encoder_layers": 13}, "num_encoder_layers"),
    *[
        ({"encoder_config": {"model_type": "bert", size: value}}, f"encoder_config: .*{size}")
        for size in ("hidden_size", "vocab_size", "num_hidden_layers", "max_position_embeddings")
        for value in ("16", [16], None)
    ],
    ({"encoder_config": "bert"}, "encoder_config must be a configuration or a dict of its values, got 'bert'"),
]


@pytest.mark.parametrize(("fields", "name"), HOSTILE)
def test_absurd_values_are_refused_by_name(fields: dict[str, Any], name: str) -> None:
    """These are the items of S-01 whose fields exist."""
    with pytest.raises(ValueError, match=name):
        SpanNERConfig(**fields)


@pytest.mark.parametrize(("fields", "name"), HOSTILE)
def test_absurd_values_in_a_file_are_refused_before_weights_are_read(
    fields: dict[str, Any], name: str, tmp_path: Path
) -> None:
    """The folder has no weights at all, so an error about the field can only come first."""
    config = {"model_type": "boundary_smoothing", **fields}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ValueError, match=name):
        METHODS["boundary_smoothing"].from_pretrained(tmp_path)


CALIBRATION = {
    "kind": "isotonic",
    "all": {"scores": [0.25, 0.75], "probabilities": [0.125, 0.5]},
    "per_label": {"A": {"scores": [0.5], "probabilities": [1.0]}},
    "fitted_on": {"name": "dev.jsonl", "num_rows": 10, "fingerprint": "ab"},
}


@pytest.mark.parametrize("config", CONFIGS)
def test_a_calibration_is_saved_and_used_in_place_of_the_temperature(
    config: type[SpanNERConfig], tmp_path: Path
) -> None:
    original = config(id2label={0: "A", 1: "B"}, calibration=CALIBRATION)
    original.save_pretrained(tmp_path)
    loaded = config.from_pretrained(tmp_path)
    assert loaded.calibration == CALIBRATION
    assert loaded.to_dict() == original.to_dict()
    assert loaded.merge_settings()["calibration"] == CALIBRATION
    plain = config.from_pretrained(tmp_path, calibration=None)
    assert plain.merge_settings()["calibration"] is None
    hot = config.from_pretrained(tmp_path, calibration=None, temperature=2)
    assert hot.merge_settings()["calibration"] == {"all": {"temperature": 2}, "per_label": {}}


PROMISED = CALIBRATION | {
    "promises": {
        "delta": 0.05,
        "decoding": {"overlap": "flat"},
        "precision": [
            {"target": 0.95, "all": 0.75, "per_label": {"A": 0.875, "B": None}},
            {"target": 0.9, "all": 0.5, "per_label": {"A": 0.25, "B": 0.625}},
        ],
        "recall": [{"target": 0.9, "all": None, "per_label": {"A": 0.125}}],
    }
}


@pytest.mark.parametrize(
    ("asked", "threshold"),
    [
        ({"min_precision": 0.95}, 0.75),
        ({"min_precision": 0.9}, 0.5),
        ({"min_precision": 0.92}, 0.75),  # what is promised for more holds for less
        ({"min_precision": 0.5}, 0.5),
        ({"min_precision": {"A": 0.95, "B": 0.9}}, {"A": 0.875, "B": 0.625}),
    ],
)
def test_a_promised_rate_becomes_its_threshold(asked: dict[str, Any], threshold: Any, tmp_path: Path) -> None:
    config = SpanNERConfig(id2label={0: "A", 1: "B"}, calibration=PROMISED, threshold=0.375)
    config.save_pretrained(tmp_path)
    config = SpanNERConfig.from_pretrained(tmp_path)
    settings = config.decoding(asked)
    assert dict(settings) == {"threshold": threshold, "overlap": "flat"}
    assert config.decoding(settings) == settings
    assert config.threshold == 0.375


class NewSettingConfig(SpanNERConfig):
    """A configuration with a setting that was none when promises were made."""

    model_type = "new_setting"
    decoding_parameters = (*SpanNERConfig.decoding_parameters, "strictness")
    strictness: Size = 3


def test_a_promise_that_does_not_name_a_setting_was_made_with_the_configurations_own() -> None:
    """It holds with that value, and with no other."""
    config = NewSettingConfig(id2label={0: "A", 1: "B"}, calibration=PROMISED)
    assert config.decoding({"min_precision": 0.9})["threshold"] == 0.5
    assert config.decoding({"min_precision": 0.9, "strictness": 3})["threshold"] == 0.5
    with pytest.raises(ValueError, match="was promised with {'overlap': 'flat'} only, got"):
        config.decoding({"min_precision": 0.9, "strictness": 4})


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"min_precision": 0.99}, "min_precision 0.99 cannot be promised for all labels; rates .*: 0.9, 0.95"),
        ({"min_recall": 0.9}, "min_recall 0.9 cannot be promised for all labels"),
        ({"min_precision": {"A": 0.9, "B": 0.95}}, "min_precision 0.95 cannot be promised for B"),
        ({"min_recall": {"A": 0.9, "B": 0.9}}, "min_recall 0.9 cannot be promised for B"),
        ({"min_precision": 0.9, "overlap": "any"}, "min_precision was promised with {'overlap': 'flat'} only, got"),
        ({"min_precision": 0.9, "threshold": 0.5}, "only one of threshold, min_precision, min_recall may be given"),
        ({"min_precision": 0.9, "min_recall": 0.9}, "got min_precision and min_recall"),
        ({"min_precision": 1.5}, r"min_precision must be a number in \[0, 1\], or one for each label, got 1.5"),
        ({"min_precision": {"A": 0.9}}, "min_precision must be a number or name each of A, B, got {'A': 0.9}"),
    ],
)
def test_a_rate_that_cannot_be_promised_is_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SpanNERConfig(id2label={0: "A", 1: "B"}, calibration=PROMISED).decoding(asked)


@pytest.mark.parametrize("calibration", [None, CALIBRATION])
def test_without_promises_none_can_be_kept(calibration: dict[str, Any] | None) -> None:
    with pytest.raises(ValueError, match="min_precision needs .* got 0.9; none can be promised"):
        SpanNERConfig(id2label={0: "A"}, calibration=calibration).decoding({"min_precision": 0.9})


def test_a_threshold_by_label_names_every_label(tmp_path: Path) -> None:
    by_label = {"A": 0.25, "B": 1}
    config = SpanNERConfig(id2label={0: "A", 1: "B"}, threshold=by_label)
    config.save_pretrained(tmp_path)
    assert SpanNERConfig.from_pretrained(tmp_path).decoding()["threshold"] == by_label
    assert config.decoding({"threshold": {"A": 0, "B": 0.5}})["threshold"] == {"A": 0, "B": 0.5}
    for wrong in ({"A": 0.5}, {"A": 0.5, "B": 0.5, "C": 0.5}, {"A": 0.5, "B": 2}, {}):
        with pytest.raises(ValueError, match="threshold must be a number"):
            SpanNERConfig(id2label={0: "A", 1: "B"}, threshold=wrong)
        with pytest.raises(ValueError, match="threshold must be a number"):
            config.decoding({"threshold": wrong})


def test_a_calibration_needs_temperature_one_and_labels_of_the_model() -> None:
    with pytest.raises(ValueError, match="temperature must be 1 where calibration is given, got 2"):
        SpanNERConfig(id2label={0: "A"}, calibration=CALIBRATION, temperature=2)
    with pytest.raises(ValueError, match="calibration must name labels of the model in per_label, got A; allowed: B"):
        SpanNERConfig(id2label={0: "B"}, calibration=CALIBRATION)


@pytest.mark.parametrize("config", CONFIGS)
def test_saving_and_loading_keeps_every_field(config: type[SpanNERConfig], tmp_path: Path) -> None:
    original = config(
        overlap="nested", pooling="max", window_size=100, window_overlap=20, threshold=1, split_hyphens=True
    )
    original.save_pretrained(tmp_path)
    loaded = config.from_pretrained(tmp_path)
    assert loaded.to_dict() == original.to_dict()
    assert loaded.overlap == "nested"


def test_values_given_beside_the_file_are_checked_and_win(tmp_path: Path) -> None:
    BoundarySmoothingConfig(id2label={0: "A", 1: "B"}, threshold=0.25).save_pretrained(tmp_path)
    loaded = AutoConfig.from_pretrained(tmp_path, threshold=0.5, id2label={0: "X", 1: "Y", 2: "Z"})
    assert (loaded.threshold, loaded.num_labels, loaded.label2id) == (0.5, 3, {"X": 0, "Y": 1, "Z": 2})
    for fields in (
        {"threshold": 5},
        {"lstm_size": 7},
        {"id2label": {0: "A", 1: "A"}},
        {"num_labels": 7},
        {"label2id": {"A": 1, "B": 0}},
    ):
        with pytest.raises(ValueError, match=next(iter(fields))):
            AutoConfig.from_pretrained(tmp_path, **fields)


def test_window_comes_from_the_encoder() -> None:
    assert SpanNERConfig(encoder_config=BertConfig()).window_size == 510
    roberta = RobertaConfig(max_position_embeddings=514, pad_token_id=1)
    config = SpanNERConfig(encoder_config=roberta)
    assert (config.window_size, config.window_overlap, config.pad_token_id) == (510, 127, 1)
    small = SpanNERConfig(encoder_config=BertConfig(max_position_embeddings=16))
    assert (small.window_size, small.window_overlap) == (14, 3)


def test_encoder_dropout_reaches_the_encoder() -> None:
    bert = SpanNERConfig(encoder_config=BertConfig(), encoder_dropout=0.3).encoder_config
    assert (bert.hidden_dropout_prob, bert.attention_probs_dropout_prob) == (0.3, 0.3)
    distilbert = SpanNERConfig(encoder_config=DistilBertConfig(), encoder_dropout=0).encoder_config
    assert (distilbert.dropout, distilbert.attention_dropout) == (0, 0)
    kept = SpanNERConfig(encoder_config=BertConfig(hidden_dropout_prob=0.25)).encoder_config
    assert kept.hidden_dropout_prob == 0.25


def test_unknown_key_is_kept_and_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is case P-03."""
    warnings = []
    monkeypatch.setattr(configuration_span_ner.logger, "warning_once", warnings.append)
    config = SpanNERConfig(no_such_field=3)
    assert len(warnings) == 1
    assert "SpanNERConfig" in warnings[0]
    assert "no_such_field" in warnings[0]
    assert config.no_such_field == 3
    warnings.clear()
    SpanNERConfig(id2label={0: "A"}, num_labels=1, architectures=["SpanNERModel"], name_or_path="x", dtype="float32")
    assert warnings == []


@pytest.mark.parametrize("config", CONFIGS)
def test_loading_what_was_saved_warns_of_nothing(
    config: type[SpanNERConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config(id2label={0: "A"}).save_pretrained(tmp_path)
    warnings = []
    monkeypatch.setattr(configuration_span_ner.logger, "warning_once", warnings.append)
    config.from_pretrained(tmp_path)
    assert warnings == []


def test_a_newer_major_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    """This is case P-03."""
    newer = f"{int(VERSION.split('.')[0]) + 1}.0.0"
    config = SpanNERConfig().to_dict() | {"spanner_version": newer}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ValueError, match="hf_spanner") as error:
        SpanNERConfig.from_pretrained(tmp_path)
    assert newer in str(error.value)
    assert VERSION in str(error.value)
    with pytest.raises(ValueError, match="spanner_version"):
        SpanNERConfig(spanner_version="new")


def test_paths_of_the_encoder_are_not_kept() -> None:
    for name, kept in (("/home/me/bert", ""), ("./bert", ""), ("~/bert", ""), ("org/bert", "org/bert")):
        encoder = BertConfig()
        encoder._name_or_path = name
        assert SpanNERConfig(encoder_config=encoder).encoder_config._name_or_path == kept


def test_decoding_overlays_the_configuration_and_never_changes_it() -> None:
    config = SpanNERConfig(threshold=0.25, overlap="nested")
    before = config.to_dict()
    assert dict(config.decoding()) == {"threshold": 0.25, "overlap": "nested"}
    settings = config.decoding({"threshold": 0.5})
    assert dict(settings) == {"threshold": 0.5, "overlap": "nested"}
    assert isinstance(settings, Decoding)
    assert config.to_dict() == before


def test_decoding_checks_names_and_ranges() -> None:
    with pytest.raises(
        ValueError, match="unknown decoding parameter treshold; allowed: threshold, overlap, min_precision, min_recall"
    ):
        SpanNERConfig().decoding({"treshold": 0.5})
    with pytest.raises(ValueError, match=r"threshold must be a number in \[0, 1\], or one for each label, got 1.5"):
        SpanNERConfig().decoding({"threshold": 1.5})
    with pytest.raises(ValueError, match="overlap must be one of 'flat', 'nested', 'any', got 'both'"):
        SpanNERConfig().decoding({"overlap": "both"})


def test_text_configuration_is_the_encoder() -> None:
    config = SpanNERConfig(encoder_config=BertConfig(vocab_size=77))
    assert config.get_text_config().vocab_size == 77
    assert config.num_prompts == 0

"""Any admitted fields survive saving and loading; any others are refused by name, before anything is made of them."""

import json
import math
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hf_spanner import METHODS, SpanNERConfig
from hf_spanner.core.calibration import CalibrationRule
from hf_spanner.core.field_rules import Interval, admits

CONFIGS = [SpanNERConfig, *(model.config_class for model in METHODS.values())]
LABELS = {0: "PER", 1: "O-RING", 2: "10", 3: "LOC/GPE", 4: "\u65e5\u672c"}
DERIVED = {"pad_token_id", "spanner_version"}  # they come from the encoder and from the package
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from(
        [0, -1, 10**12, 2**70, math.nan, math.inf, -math.inf, -0.0, 1e-320, "", "NaN", "1", [], {}, [1, 1], [0]]
    ),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(-3, 20), max_size=4),
    st.dictionaries(st.sampled_from(["PER", "all", "kind"]), st.floats(0, 2), max_size=3),
)


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values that an annotation admits, small enough that any relation between fields has a chance."""
    parts = get_args(kind)
    if kind is bool:
        return st.booleans()
    if kind is NoneType:
        return st.none()
    if get_origin(kind) is Literal:
        return st.sampled_from(parts)
    if get_origin(kind) is dict:
        return st.fixed_dictionaries(dict.fromkeys(LABELS.values(), values_of(parts[1])))
    if get_origin(kind) is not Annotated:
        return st.one_of(*map(values_of, parts))
    rule = parts[1]
    if isinstance(rule, CalibrationRule):
        source = {"name": "dev", "num_rows": 3, "fingerprint": "ab"}
        temperature = st.builds(lambda value: {"temperature": value}, st.floats(0.125, 8))
        maps = st.fixed_dictionaries({"all": temperature, "per_label": st.dictionaries(st.just("10"), temperature)})
        return maps.map(lambda value: {"kind": "temperature", **value, "fitted_on": source})
    if isinstance(rule, Interval):
        highest = min(rule.highest, 64)
        if parts[0] is int:
            return st.integers(rule.lowest, highest)
        return st.floats(rule.lowest, highest, exclude_min=rule.excludes_lowest, exclude_max=highest == rule.highest)
    return st.lists(st.integers(1, 40), min_size=1, max_size=5, unique=True).map(sorted)  # of seed lengths


@pytest.mark.parametrize("config", CONFIGS)
@given(data=st.data())
def test_admitted_fields_come_back_from_a_file(
    config: type[SpanNERConfig], data: st.DataObject, tmp_path: Path
) -> None:
    """When fields contradict each other, the error names one of them."""
    names = data.draw(st.sets(st.sampled_from(sorted(set(config.field_rules) - DERIVED)), max_size=6))
    fields = {name: data.draw(values_of(config.field_rules[name]), label=name) for name in sorted(names)}
    try:
        original = config(id2label=LABELS, **fields)
    except ValueError as error:
        assert any(name in str(error) for name in [*fields, "width of the word vectors"])  # noqa: PT017
        assume(False)
    original.save_pretrained(tmp_path)
    loaded = config.from_pretrained(tmp_path)
    assert loaded.to_dict() == original.to_dict()
    assert {name: vars(loaded)[name] for name in fields if fields[name] is not None} == {
        name: value for name, value in fields.items() if value is not None
    }
    assert loaded.id2label == LABELS
    assert loaded.decoding() == original.decoding()


@pytest.mark.parametrize("config", CONFIGS)
@given(data=st.data())
def test_a_value_that_is_not_admitted_is_refused_by_name(
    config: type[SpanNERConfig], data: st.DataObject, tmp_path: Path
) -> None:
    """It is refused in code, on assignment, and in a file if JSON can hold it."""
    name = data.draw(st.sampled_from(sorted(config.field_rules)))
    value = data.draw(JUNK)
    assume(not admits(config.field_rules[name], value))
    with pytest.raises(ValueError, match=name):
        config(id2label=LABELS, **{name: value})
    with pytest.raises(ValueError, match=name):
        setattr(config(id2label=LABELS), name, value)
    written = json.dumps({"model_type": config.model_type, name: value})
    (tmp_path / "config.json").write_text(written, encoding="utf-8")
    with pytest.raises(ValueError, match=name):
        config.from_pretrained(tmp_path)
    if name in config.decoding_parameters:
        with pytest.raises(ValueError, match=name):
            config(id2label=LABELS).decoding({name: value})

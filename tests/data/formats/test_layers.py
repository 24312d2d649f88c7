"""Which layer holds the entities."""

import pytest

from hf_spanner.data.formats.layers import NAMED_ENTITY, chosen_layer, short_name

LAYERS = ["custom.A", "custom.B", NAMED_ENTITY]


@pytest.mark.parametrize(
    ("layer", "used", "chosen"),
    [
        (None, {"custom.A"}, "custom.A"),
        (None, {"custom.A", NAMED_ENTITY}, NAMED_ENTITY),
        (None, set(), None),
        ("B", {"custom.A"}, "custom.B"),
        ("custom.B", {"custom.A", "custom.B"}, "custom.B"),
    ],
)
def test_the_layer_is_asked_for_or_clear_and_the_others_are_counted(layer, used, chosen, reading):
    options = reading(layer=layer)
    assert chosen_layer(LAYERS, used, "f", options) == chosen
    assert options.report.counts.total() == len(used - {chosen})


def test_a_layer_that_is_not_clear_or_not_there_is_refused(reading):
    with pytest.raises(ValueError, match=r"layers \['custom.A', 'custom.B'\] have annotations"):
        chosen_layer(LAYERS, {"custom.A", "custom.B"}, "f", reading())
    with pytest.raises(ValueError, match="layer is 'C'"):
        chosen_layer(LAYERS, set(), "f", reading(layer="C"))
    assert short_name(NAMED_ENTITY) == "NamedEntity"

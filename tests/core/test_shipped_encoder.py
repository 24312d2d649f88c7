"""The file that a saved model replaces where its encoder has code of its own."""

from hf_spanner.core.shipped_encoder import OWN_CLASSES


def test_the_package_has_no_encoder_of_its_own() -> None:
    assert OWN_CLASSES is None

"""Locate and Label (Shen et al. 2021): filter seed spans, move their boundaries, then classify."""

from hf_spanner.methods.locate_and_label.configuration_locate_and_label import LocateAndLabelConfig
from hf_spanner.methods.locate_and_label.modeling_locate_and_label import LocateAndLabelModel

__all__ = ["LocateAndLabelConfig", "LocateAndLabelModel"]

"""Boundary Smoothing (Zhu and Li 2022): biaffine span scores, smoothed targets."""

from hf_spanner.methods.boundary_smoothing.configuration_boundary_smoothing import BoundarySmoothingConfig
from hf_spanner.methods.boundary_smoothing.modeling_boundary_smoothing import BoundarySmoothingModel

__all__ = ["BoundarySmoothingConfig", "BoundarySmoothingModel"]

"""DiffusionNER (Shen et al. 2023): random boundaries are denoised into entities."""

from hf_spanner.methods.diffusion_ner.configuration_diffusion_ner import DiffusionNERConfig
from hf_spanner.methods.diffusion_ner.modeling_diffusion_ner import DiffusionNERModel

__all__ = ["DiffusionNERConfig", "DiffusionNERModel"]

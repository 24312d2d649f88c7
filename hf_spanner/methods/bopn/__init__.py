"""BOPN (Tang et al. 2023): every span predicts its offset to a near entity of each type."""

from hf_spanner.methods.bopn.configuration_bopn import BOPNConfig
from hf_spanner.methods.bopn.modeling_bopn import BOPNModel

__all__ = ["BOPNConfig", "BOPNModel"]

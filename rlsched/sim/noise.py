"""Normal noise that depends on nothing but its three numbers: the same in a vector or alone, compiled or not.

A counter-based generator (the finaliser of SplitMix64, Steele et al. 2014) picks one of 4,096 equally likely
quantiles of the normal distribution.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from rlsched.jobs import FloatArray
from rlsched.sim.compiled import step

QUANTILES: FloatArray = np.array([NormalDist().inv_cdf((k + 0.5) / 4096) for k in range(4096)])
"""(4096,) in ascending order."""


@step
def quantile_of(seed: int, tick: int, lead: int) -> int:
    """Index into `QUANTILES` for the forecast of `tick + lead` that is made at `tick`."""
    x = (
        np.uint64(seed)
        + np.uint64(tick) * np.uint64(0x9E3779B97F4A7C15)
        + np.uint64(lead) * np.uint64(0xBF58476D1CE4E5B9)
    )
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return int(x >> np.uint64(52))

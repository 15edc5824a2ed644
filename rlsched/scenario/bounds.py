"""Upper bounds of settings: beyond them 64-bit sums overflow, or what is allocated fits no memory."""

from __future__ import annotations

MOST_SECONDS = 10**9
"""About 31 years. Ticks times seconds per tick stay within 64 bits."""

MOST_TICKS = 10**9
"""Of a length of time."""

MOST_EPISODE_TICKS = 10**8
"""Of an episode, whose power series has two numbers per tick."""

MOST_EPISODE_JOBS = 10**7

MOST_SLOTS = 100_000
"""Of pools, of the horizon and of parts of the observation: a request to the service has no more jobs.

Weights need not depend on these sizes, so that only this keeps the memory small that an observation takes."""

MOST_UNITS = 2**30
"""Of a resource: demands are 32-bit numbers, and so are sums of two of them."""

MOST_ROW = 2**31 - 1
"""Of a trace."""

MOST_SEED = 2**63 - 1

MOST = 1e12
"""Of prices, powers and factors: products of some of them stay exact enough."""

LEAST_LOAD, MOST_LOAD = 1e-9, 1e3

MOST_PARAMETER = 1e6
"""Of the shapes and scales of a model's distributions."""

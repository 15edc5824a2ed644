"""Upper bounds of settings: beyond them 64-bit sums overflow, or memory does not suffice."""

from __future__ import annotations

MOST_SECONDS = 10**9
"""About 31 years. Ticks times seconds per tick stay within 64 bits."""

MOST_TICKS = 10**9
"""Longest duration."""

MOST_EPISODE_TICKS = 10**8
"""Longest episode; its power series has two numbers per tick."""

MOST_EPISODE_JOBS = 10**7

MOST_SLOTS = 100_000
"""Largest pool, planning horizon or block of an observation; a request to the service has no more jobs.

Weights may be independent of these sizes, so that only this bound limits the memory of an observation."""

MOST_UNITS = 2**30
"""Most units of a resource: demands, and sums of two, are 32-bit numbers."""

MOST_ROW = 2**31 - 1
"""Last row of a trace."""

MOST_SEED = 2**63 - 1

MOST = 1e12
"""Largest price, power or factor: products of them stay exact enough."""

LEAST_LOAD, MOST_LOAD = 1e-9, 1e3

MOST_PARAMETER = 1e6
"""Largest shape or scale of a model's distributions."""

"""How often the 95 % interval over seeds and episodes holds the true mean, by the number of seeds.

Values are drawn whose true mean is 0: an effect of the seed (standard deviation 1), one of the episode (0.5)
and noise (1). The intervals are those of `rlsched evaluate` on a folder of seeds.

    python -m benchmarks.interval_coverage
"""

from __future__ import annotations

import numpy as np

from rlsched.evaluate.bootstrap import bootstrap_columns

SEEDS = (2, 3, 5, 10)
EPISODES, COMPARISONS = 64, 200
SEED_SPREAD, EPISODE_SPREAD, NOISE = 1.0, 0.5, 1.0


def coverage(seeds: int, rng: np.random.Generator) -> float:
    """Share of comparisons whose interval holds 0."""
    samples = [
        rng.normal(0.0, SEED_SPREAD, (seeds, 1))
        + rng.normal(0.0, EPISODE_SPREAD, (1, EPISODES))
        + rng.normal(0.0, NOISE, (seeds, EPISODES))
        for _ in range(COMPARISONS)
    ]
    intervals = bootstrap_columns(samples)
    return float(np.mean([interval.low <= 0.0 <= interval.high for interval in intervals]))


def main() -> None:
    """Print the coverage for each number of seeds."""
    rng = np.random.default_rng(0)
    for seeds in SEEDS:
        print(f"{seeds:3d} seeds: {100 * coverage(seeds, rng):.0f} %", flush=True)


if __name__ == "__main__":
    main()

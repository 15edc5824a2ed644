"""Names for `gymnasium.make` and `make_vec`: every shipped scenario as `rlsched/NAME`.

It runs at every import of the package, so it has to be fast.
"""

from __future__ import annotations

from importlib import resources

import gymnasium as gym


def register_all() -> None:
    """Register one environment per shipped scenario."""
    for entry in sorted((resources.files("rlsched") / "scenarios").iterdir(), key=lambda entry: entry.name):
        name = entry.name.removesuffix(".yaml")
        if name == entry.name:
            continue
        gym.register(
            f"rlsched/{name}",
            entry_point="rlsched.envs.env:SchedulingEnv",
            vector_entry_point="rlsched.envs.vector:SchedulingVectorEnv",
            kwargs={"scenario": name},
            disable_env_checker=True,
        )

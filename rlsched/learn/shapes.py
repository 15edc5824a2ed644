"""Whether the sizes that an artefact names are those of its weights, before anything of that size is made."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import safe_open

from rlsched.errors import BadInputError
from rlsched.learn.networks import build_policy
from rlsched.learn.sections import Network
from rlsched.scenario import Scenario
from rlsched.sim.layout import Layout

LARGEST = 100_000
"""Jobs and ticks that a policy sees at most: a request to the service lists no more of them. Weights need not
depend on these, so that only this keeps what is made for each state small."""

Shapes = dict[str, tuple[int, ...]]
"""Name of a parameter -> its shape."""


def check_sizes(scenario: Scenario, where: str) -> None:
    """Refuse a scenario whose states would not fit into memory.

    Raises:
        BadInputError: a policy would see too many jobs or ticks.
    """
    sizes = {
        "decision.window": scenario.decision.window,
        "decision.horizon": scenario.decision.horizon or 0,
        "observation.event_horizon": scenario.observation.event_horizon,
    }
    for name, size in sizes.items():
        if size > LARGEST:
            raise BadInputError(where, f"{name}: value {size} is too large", f"use at most {LARGEST:,}")


def shapes_by(layout: Layout, network: Network) -> Shapes:
    """What these settings make of a policy network; nothing is allocated or drawn.

    Raises:
        BadInputError: the network cannot work with what is observed.
        RuntimeError: a parameter would have more numbers than can be counted.
        TypeError: a size is beyond 64 bits.
    """
    with torch.device("meta"):
        net = build_policy(layout, network)
    return {name: tuple(value.shape) for name, value in net.state_dict().items()}


def check_shapes(file: Path, expected: Shapes) -> None:
    """Hold the header of a weights file against what settings make of a network.

    Raises:
        OSError: there is no such file.
        SafetensorError: it is damaged.
        ValueError: a parameter is missing, of another shape, or not expected.
    """
    with safe_open(file, framework="numpy") as weights:
        found: Shapes = {name: tuple(weights.get_slice(name).get_shape()) for name in weights.keys()}  # noqa: SIM118
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            by_file, by_settings = found.get(name, "missing"), expected.get(name, "unknown")
            raise ValueError(f"{name} is {by_file} in {file.name}, and {by_settings} by its settings")

"""Check of the sizes in an artefact's settings against its weights, before any of them is allocated."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import safe_open

from rlsched.learn.config.sections import Network
from rlsched.learn.networks.blocks import present_name
from rlsched.learn.networks.policies import build_policy
from rlsched.sim.layout import Layout

Shapes = dict[str, tuple[int, ...]]
"""Name of a parameter -> its shape."""


def shapes_by(layout: Layout, network: Network) -> Shapes:
    """Parameter shapes of the policy network of these settings; nothing is allocated or drawn.

    Raises:
        BadInputError: the network needs a block that is not observed.
        RuntimeError: a parameter would have more numbers than can be counted.
        TypeError: a size is beyond 64 bits.
    """
    with torch.device("meta"):
        net = build_policy(layout, network)
    return {name: tuple(value.shape) for name, value in net.state_dict().items()}


def check_shapes(file: Path, expected: Shapes) -> None:
    """Compare the header of a weights file with the expected shapes.

    Raises:
        OSError: there is no such file.
        SafetensorError: it is damaged.
        ValueError: a parameter is missing, of another shape, or not expected.
    """
    with safe_open(file, framework="numpy") as weights:
        names = weights.keys()
        stored: Shapes = {present_name(name): tuple(weights.get_slice(name).get_shape()) for name in names}
    for name in sorted(expected.keys() | stored.keys()):
        if expected.get(name) != stored.get(name):
            by_file, by_settings = stored.get(name, "missing"), expected.get(name, "unknown")
            raise ValueError(f"{name} is {by_file} in {file.name}, and {by_settings} by its settings")

"""Initial priority function of a search."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray
from rlsched.learn.config.sections import Network
from rlsched.learn.networks.priority import PriorityNet, state_blocks
from rlsched.learn.policy import load_policy
from rlsched.sim.layout import Layout

DIFFERENCES = {
    "units": ("has {old} hidden units, not {new}", "set network.priority_units={old}"),
    "cluster": ("judges jobs of {old}", "name one of {new}"),
    "blocks": (
        "judges states by {old}, not by {new}",
        "name one whose observation.blocks have the same of these",
    ),
    "features": ("judges jobs by {old}", "name one that judges them by {new}"),
}
"""Part of the form of a priority function -> problem and remedy where two forms differ in it."""


def initial_parameters(layout: Layout, network: Network, folder: str) -> FloatArray:
    """Parameters (parameters,) of the priority function of a run, as a search's initial ones.

    The function must have the same features of jobs and states. Its window, cluster and time scales may be
    others; with another time scale its weights of times mean something else.

    Raises:
        BadInputError: there is none in that folder, or it is of another form.
    """
    if not Path(folder).is_dir():
        raise BadInputError("search.start", f"no such folder: {folder}", "name a run of priority_search")
    policy = load_policy(Path(folder))
    if not isinstance(policy.net, PriorityNet):
        raise BadInputError(
            "search.start", f"{folder!r} holds a {policy.network.kind}", "name a run of priority_search"
        )
    new, old = _form(layout, network), _form(policy.layout, policy.network)
    for name, (problem, remedy) in DIFFERENCES.items():
        if new[name] != old[name]:
            problem, remedy = (text.format(new=new[name], old=old[name]) for text in (problem, remedy))
            raise BadInputError("search.start", f"{folder!r} {problem}", remedy)
    return policy.net.flat().astype(np.float64)


def _form(layout: Layout, network: Network) -> dict[str, str]:
    return {
        "units": str(network.priority_units),
        "cluster": f"{layout.num_resources} resources with{'' if layout.horizon else 'out'} a horizon",
        "blocks": ", ".join(block.name for block in state_blocks(layout)),
        "features": ", ".join(layout.features("jobs")),
    }

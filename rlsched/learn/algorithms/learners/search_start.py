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
    old = policy.layout
    units, old_units = network.priority_units, policy.network.priority_units
    blocks, old_blocks = (", ".join(block.name for block in state_blocks(of)) for of in (layout, old))
    features, old_features = ", ".join(layout.features("jobs")), ", ".join(old.features("jobs"))
    form, old_form = (
        f"{of.num_resources} resources with{'' if of.horizon else 'out'} a horizon" for of in (layout, old)
    )
    differences = (
        (
            units,
            old_units,
            f"has {old_units} hidden units, not {units}",
            f"set network.priority_units={old_units}",
        ),
        (form, old_form, f"judges jobs of {old_form}", f"name one of {form}"),
        (
            blocks,
            old_blocks,
            f"judges states by {old_blocks}, not by {blocks}",
            "name one whose observation.blocks have the same of these",
        ),
        (
            features,
            old_features,
            f"judges jobs by {old_features}",
            f"name one that judges them by {features}",
        ),
    )
    for expected, value, problem, remedy in differences:
        if value != expected:
            raise BadInputError("search.start", f"{folder!r} {problem}", remedy)
    return policy.net.flat().astype(np.float64)

"""The exported policy: a folder with the policy, a card for people and an example request."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from rlsched.errors import BadInputError
from rlsched.files import quoted
from rlsched.learn.policy import NetworkPolicy, load_policy
from rlsched.scenario import Scenario
from rlsched.serve.api.schema import DecisionRequest, RunningJob, WaitingJob
from rlsched.settings_files import as_json
from rlsched.versions import versions

CARD, EXAMPLE = "README.md", "example.json"
PACKAGES = ("rlsched", "torch", "numpy", "numba", "safetensors")

NOON = 1_767_268_800  # time of the example request


def export_policy(checkpoint: Path, folder: Path, window: int | None = None) -> NetworkPolicy:
    """Write the artefact of a trained policy; an existing one is replaced once the new one is complete.

    Args:
        checkpoint: a run folder (its best policy), a checkpoint or a policy.
        folder: of the artefact.
        window: oldest waiting jobs that it observes; None: as many as in its training.

    Returns:
        The exported policy.

    Raises:
        BadInputError: there is no policy, it cannot observe as many jobs, or the folder holds something else,
            such as the policy itself.
        OSError: it cannot be written; an existing artefact is unchanged.
    """
    policy = load_policy(checkpoint)
    check_servable(policy.scenario, str(checkpoint))
    if window is not None:
        policy = policy.seeing(window)
    check_replaceable(folder)
    if folder.exists() and folder.samefile(checkpoint):
        raise BadInputError(str(folder), "is also what is exported", "name another folder")
    about = policy.about | {"exported_from": str(checkpoint), "versions": versions(PACKAGES)}
    policy = replace(policy, about=about)
    example = msgspec.json.format(msgspec.json.encode(example_request(policy)))
    policy.save(
        folder,
        {
            CARD: card(policy, folder).encode(),
            EXAMPLE: example + b"\n",
            "scenario.json": as_json(policy.scenario.model_dump(mode="json")),
        },
    )
    return policy


def check_servable(scenario: Scenario, where: str) -> None:
    """Refuse scenarios whose rules the service does not follow.

    Raises:
        BadInputError: late jobs expire at their latest start; a service would leave them in the ready pool.
    """
    if scenario.decision.expiry_rule == "latest_start":
        problem = "decision.expiry_rule='latest_start' is not known to the service"
        raise BadInputError(where, problem, "train with decision.expiry_rule=violation to serve the policy")


def check_replaceable(folder: Path) -> None:
    """Refuse a folder that holds anything but an artefact.

    Raises:
        BadInputError: it does.
    """
    if folder.is_file():
        raise BadInputError(str(folder), "is a file", "name a folder")
    # Policies of a run and of its checkpoints have no example: they are not artefacts.
    if folder.is_dir() and any(folder.iterdir()) and not (folder / EXAMPLE).is_file():
        raise BadInputError(str(folder), "holds other files", "name a folder that is new or empty")
    if folder.is_dir() and (folder / "train.yaml").exists():
        raise BadInputError(str(folder), "holds a run", "name a folder that is new or empty")


def units_of(scenario: Scenario) -> list[int]:
    """(resource,) units of the cluster that a policy was trained for; empty: not known."""
    units = [resource.units for resource in scenario.cluster.resources]
    return [] if None in units else [int(number or 0) for number in units]


def example_request(policy: NetworkPolicy) -> DecisionRequest:
    """A request about a small cluster: three jobs run, and four wait, not all of which fit."""
    scenario = policy.scenario
    tick_s, horizon = scenario.cluster.tick_s, scenario.decision.horizon
    units = units_of(scenario) or [64] * policy.num_resources
    now = NOON // tick_s * tick_s
    longest = 12 * tick_s if horizon is None else max(1, min(12, horizon // 2)) * tick_s
    step = max(tick_s, 1800 // tick_s * tick_s) if horizon is None else tick_s

    def part(share: float) -> list[int]:
        return [max(1 if r == 0 else 0, int(count * share)) for r, count in enumerate(units)]

    power = scenario.power
    full_kw = sum(
        count * resource.full_w / 1000.0
        for count, resource in zip(units, scenario.cluster.resources, strict=True)
    )
    return DecisionRequest(
        now=now,
        running=[
            RunningJob(
                id=k,
                demand=part(0.25),
                start=now - k * step,
                expected_end=now + (4 - k) * step,
                submit=now - (k + 1) * step,
            )
            for k in (1, 2, 3)
        ],
        waiting=[
            WaitingJob(id=10 + k, submit=now - (5 - k) * step, requested=requested, demand=part(share))
            for k, (requested, share) in enumerate(
                ((longest, 0.6), (step, 0.125), (2 * step, 0.25), (max(tick_s, step // 2), 0.1))
            )
        ],
        units=units,
        supply_kw=None if power is None else [round(full_kw, 3)] * 3,
    )


def card(policy: NetworkPolicy, folder: Path) -> str:
    """A description of the policy for people, in Markdown."""
    scenario = policy.scenario
    validation = policy.about.get("validation") or {}
    figures = "\n".join(f"| {name} | {value:.6g} |" for name, value in sorted(validation.items()))
    rows = "\n".join(f"| {name} | {value} |" for name, value in _properties(policy).items())
    return f"""# A scheduling policy for {scenario.name}

{scenario.description or "No description."}

| | |
| --- | --- |
{rows}

Results of validation, on episodes outside its training:

| metric | mean |
| --- | --- |
{figures or "| not validated | |"}

## Use

    rlsched serve {quoted(folder)}
    curl -s localhost:8000/v1/decisions -H content-type:application/json -d @{quoted(folder / EXAMPLE)}

The policy takes its best action. It was compared with heuristics only on its own workload. Compare it on
yours before it decides anything (`--gate YOURS.swf.gz`: the heuristic decides instead of a policy that is
worse). First let it run as a shadow of the heuristic (`--mode shadow`). It has not learned about jobs of
another kind or a cluster of another size.

## Files

`policy.json`: network, spaces, normaliser, versions; `weights.safetensors`: one array per parameter,
checked against the checksum in `policy.json`; `scenario.json`: its training scenario and observation;
`example.json`: a request.
"""


def _properties(policy: NetworkPolicy) -> dict[str, str]:
    """Properties of a policy for its card: name -> value."""
    scenario, about = policy.scenario, policy.about
    decision, objective = scenario.decision, scenario.objective
    sizes = [" or ".join("?" if size is None else f"{size:,}" for size in sizes) for sizes in scenario.sizes]
    names = [resource.name for resource in scenario.cluster.resources]
    trained = about.get("trained_window", decision.window)
    smaller = "" if trained == decision.window else f" (the first {trained} in training and validation)"
    learned = f"{about.get('algo', 'unknown')}, seed {about.get('seed', 'unknown')}"
    if about.get("steps"):
        learned += f", {about['steps']:,} decisions"
    decides = "event by event; a job that does not fit may get a reservation"
    if decision.tick_driven:
        ticks = f"{decision.horizon} ticks of {scenario.cluster.tick_s} s"
        decides = f"tick by tick, {ticks} ahead, placed {decision.placement}"
    memory = f", with a memory of {policy.network.lstm}" if policy.recurrent else ""
    blocks = ", ".join(scenario.observation.blocks)
    return {
        "learned by": learned,
        "cluster": ", ".join(f"{size} {name}" for size, name in zip(sizes, names, strict=True)),
        "looks at": f"the first {decision.window} waiting jobs{smaller}; {blocks}",
        "decides": decides,
        "rewarded for": ", ".join(f"{name} x {weight:g}" for name, weight in objective.reward.items()),
        "limits": ", ".join(f"{name} <= {limit}" for name, limit in objective.limits.items()) or "none",
        "network": f"{policy.network.kind}{memory}",
        "checksum": policy.fingerprint[:16],
        "made with": ", ".join(f"{name} {number}" for name, number in about["versions"].items()),
    }

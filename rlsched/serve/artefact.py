"""The artefact that is served: a policy's folder with a card for people and a request to begin with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from rlsched.errors import BadInputError
from rlsched.files import quoted
from rlsched.learn.policy import TrainedPolicy, load_policy
from rlsched.scenario import Scenario
from rlsched.serve.api.schema import DecisionRequest, RunningJob, WaitingJob
from rlsched.settings_files import as_json
from rlsched.versions import versions

CARD, EXAMPLE = "README.md", "example.json"
PACKAGES = ("rlsched", "torch", "numpy", "numba", "safetensors")

NOON = 1_767_268_800
"""Some time, for the example."""


def export_policy(checkpoint: Path, folder: Path, window: int | None = None) -> TrainedPolicy:
    """Write the artefact of a trained policy; one that is there is replaced once the new one is whole.

    Args:
        checkpoint: a run folder (its best policy), a checkpoint or a policy.
        folder: of the artefact.
        window: that it is to see so many of the oldest waiting jobs; None: as many as in its training.

    Returns:
        The policy as it was written.

    Raises:
        BadInputError: there is no policy, it cannot see as many, or something else is in the folder, as the
            policy itself.
        OSError: it cannot be written; what was there is untouched.
    """
    policy = load_policy(checkpoint)
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


def check_replaceable(folder: Path) -> None:
    """Refuse a folder with anything but an artefact in it.

    Raises:
        BadInputError: something else is there.
    """
    if folder.is_file():
        raise BadInputError(str(folder), "is a file", "name a folder")
    # Policies of a run and of its checkpoints have no example: they are what is exported.
    if folder.is_dir() and any(folder.iterdir()) and not (folder / EXAMPLE).is_file():
        raise BadInputError(str(folder), "holds other files", "name a folder that is new or empty")
    if folder.is_dir() and (folder / "train.yaml").exists():
        raise BadInputError(str(folder), "holds a run", "name a folder that is new or empty")


def units_of(scenario: Scenario) -> list[int]:
    """(resource,) units of the cluster that a policy was trained for; empty where it does not say."""
    units = [resource.units for resource in scenario.cluster.resources]
    return [] if None in units else [int(number or 0) for number in units]


def example_request(policy: TrainedPolicy) -> DecisionRequest:
    """A small cluster to ask about: three jobs run, four wait, not all of which fit."""
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


def card(policy: TrainedPolicy, folder: Path) -> str:
    """What people read before they use it, in Markdown."""
    scenario, about = policy.scenario, policy.about
    decision, objective = scenario.decision, scenario.objective
    units = ", ".join(
        f"{' or '.join('?' if size is None else f'{size:,}' for size in sizes)} {resource.name}"
        for resource, sizes in zip(scenario.cluster.resources, scenario.sizes, strict=True)
    )
    trained = about.get("trained_window", decision.window)
    seen = "" if trained == decision.window else f" (the first {trained} in training and validation)"
    reward = ", ".join(f"{name} x {weight:g}" for name, weight in objective.reward.items())
    limits = ", ".join(f"{name} <= {limit}" for name, limit in objective.limits.items()) or "none"
    reached = about.get("validation") or {}
    figures = "\n".join(f"| {name} | {value:.6g} |" for name, value in sorted(reached.items()))
    learned = f"{about.get('algo', 'unknown')}, seed {about.get('seed', 'unknown')}"
    if about.get("steps"):
        learned += f", {about['steps']:,} decisions"
    packages = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    placed = (
        "event by event; a job that does not fit may get a reservation"
        if decision.horizon is None
        else f"tick by tick, {decision.horizon} ticks of {scenario.cluster.tick_s} s ahead, "
        f"placed {decision.placement}"
    )
    return f"""# A scheduling policy for {scenario.name}

{scenario.description or "No description."}

| | |
| --- | --- |
| learned by | {learned} |
| cluster | {units} |
| looks at | the first {decision.window} waiting jobs{seen}; {", ".join(scenario.observation.blocks)} |
| decides | {placed} |
| rewarded for | {reward} |
| limits | {limits} |
| network | {policy.network.kind}{f", with a memory of {policy.network.lstm}" if policy.recurrent else ""} |
| checksum | {policy.fingerprint[:16]} |
| made with | {packages} |

What it came to in validation, on episodes that it was not trained on:

| metric | mean |
| --- | --- |
{figures or "| not validated | |"}

## Use

    rlsched serve {quoted(folder)}
    curl -s localhost:8000/v1/decisions -H content-type:application/json -d @{quoted(folder / EXAMPLE)}

It takes the best action it knows, and was held against heuristics on its own workload only. Hold it against
them on yours before it decides anything (`--gate YOURS.swf.gz`: it stands back where it is behind). Let it
run as a shadow beside them first (`--mode shadow`). What it has not seen, such as jobs of another kind or a
cluster of another size, it does not know.

## Files

`policy.json`: network, spaces, normaliser, versions; `weights.safetensors`: one array per parameter,
checked against the checksum in `policy.json`; `scenario.json`: what it was trained on, and
sees; `example.json`: a request.
"""

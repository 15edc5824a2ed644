"""The gate: before a policy acts, it is compared with heuristics on the site's own recent jobs."""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

import rlsched
from rlsched.errors import BadInputError
from rlsched.evaluate.gate import check_episodes, gate_json, ranked, verdicts
from rlsched.evaluate.measures import measure
from rlsched.evaluate.policy_factory import heuristic_policy, learned_policies, training_overlap
from rlsched.evaluate.references import heuristics
from rlsched.evaluate.session import Choice, Session, open_session
from rlsched.files import write_whole
from rlsched.learn.policy import NetworkPolicy
from rlsched.report.words import gate_line, written
from rlsched.scenario import EpisodeSettings, Scenario, SwfWorkload
from rlsched.serve.decide.fallback import rules_of
from rlsched.serve.settings import Gate

RECORD = "gate.json"
"""File in the folder of a policy with the last result, which replicas and cron jobs need not repeat."""

LONGER = "give a longer trace, or play fewer jobs in each episode by gate.jobs"  # remedy for too few episodes


class GateResult(msgspec.Struct, frozen=True):
    """Result of the gate for a policy.

    Figures are those of `gate_json`, with `trace`, the `offsets` of its episodes, and `repairs`, the jobs
    that were left out or corrected on reading it.
    """

    key: str  # checksum of policy, trace and settings
    passes: bool  # whether the policy may act
    line: str  # why, with figures; the policy is its subject
    heuristic: str  # name:rule of the best heuristic that a service can run
    figures: dict[str, Any]


def evaluate_gate(policy: NetworkPolicy, folder: Path, gate: Gate) -> GateResult:
    """Compare a policy with heuristics on the last jobs of a trace.

    An earlier result for the same policy, trace and settings is read from the policy's folder; a new one is
    written there if possible.

    Raises:
        BadInputError: the trace cannot be read, is too short, or is not for such a policy.
    """
    key = _key(policy, gate)
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):  # there is no valid one
        earlier = msgspec.json.decode((folder / RECORD).read_bytes(), type=GateResult)
        if earlier.key == key:
            return earlier
    result = _evaluate(policy, folder, gate, key)
    with suppress(OSError):  # a read-only folder: evaluated again the next time
        write_whole(folder / RECORD, msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    return result


def _evaluate(policy: NetworkPolicy, folder: Path, gate: Gate, key: str) -> GateResult:
    session = _session(policy.scenario, gate)
    offsets = [episode.offset for episode in session.episodes]
    check_episodes(offsets, LONGER)
    learned = learned_policies(str(folder), {None: policy}, session)
    rivals = [heuristic_policy("--gate", *pair, session, None) for pair in heuristics(session.scenario)]
    result = session.run([learned, *rivals]).result
    (verdict,) = verdicts(result)
    rules = rules_of(policy.scenario)
    instead, mean = next(pair for pair in ranked(result, verdict.metric) if pair[0].backfill in rules)
    line = gate_line(verdict, gate.trace.name)
    if instead != verdict.heuristic and not verdict.passes:
        reached = written(mean, measure(verdict.metric).unit)
        line += f"; no service runs {verdict.heuristic.backfill}; of the others {instead} is best, {reached}"
    if overlap := training_overlap(learned, session):
        line += f"; the policy may have been trained on jobs of {overlap} of them"
    figures = gate_json([verdict])[0]
    figures |= {"trace": str(gate.trace), "offsets": offsets, "repairs": session.repairs}
    return GateResult(key, verdict.passes, line, f"{instead.policy}:{instead.backfill}", figures)


def _session(scenario: Scenario, gate: Gate) -> Session:
    """The last episodes of the trace, as long as the policy's, on the machine of its header.

    The rules of the policy's scenario stay, and so do those by which it takes jobs from a trace. What it
    changes about a trace does not: load, estimates and days that are put together.

    Raises:
        BadInputError: there are none.
    """
    fresh = {"load": None, "estimates": None, "resample": "never", "training_jobs": None, "rules": "standard"}
    workload = SwfWorkload(kind="swf", file=gate.trace)
    if isinstance(scenario.workload, SwfWorkload):
        workload = scenario.workload.model_copy(update={"file": gate.trace} | fresh)
    first, *more = scenario.cluster.resources
    cluster = scenario.cluster.model_copy(
        update={"resources": (first.model_copy(update={"units": None}), *more)}
    )
    jobs = gate.jobs or scenario.episode.jobs
    if jobs is None and not scenario.decision.tick_driven:
        jobs = EpisodeSettings().jobs  # without a horizon an episode has a number of jobs
    episode = scenario.episode.model_copy(update={"jobs": jobs, "offsets": ()})
    site = scenario.model_copy(update={"workload": workload, "cluster": cluster, "episode": episode})
    try:
        return open_session(site, Choice(episodes=gate.episodes, recent=True))
    except BadInputError as error:
        remedy = error.remedy
        if "--set" in remedy:  # settings of the scenario, which are the policy's
            remedy = "write the size of the machine into its header, as in '; MaxProcs: 128'"
        elif "episode." in remedy:
            remedy = LONGER
        raise BadInputError("--gate", f"{error.where}: {error.problem}", remedy) from None


def _key(policy: NetworkPolicy, gate: Gate) -> str:
    """A checksum of everything that determines a verdict.

    Raises:
        BadInputError: there is no such trace.
    """
    try:
        status = gate.trace.stat()
    except OSError as error:
        problem = f"cannot read {str(gate.trace)!r} ({error.strerror})"
        raise BadInputError("--gate", problem, "name a job trace (SWF)") from None
    parts = (
        rlsched.__version__,
        policy.fingerprint,
        policy.scenario.model_dump_json(),
        (str(gate.trace.resolve()), status.st_size, status.st_mtime_ns),
        (gate.episodes, gate.jobs),
    )
    return sha256(json.dumps(parts).encode()).hexdigest()

"""What was decided, job by job, for people and machines."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from rlsched.integrations.slurm.commands import changes
from rlsched.integrations.slurm.mapping import Mapped
from rlsched.serve.api.schema import Answer

ACTIONS = {"start": "start", "reserve": "keep units for it"}
"""Actions of a policy, in words."""


def rows_of(mapped: Mapped, answer: Answer) -> list[dict[str, Any]]:
    """What is to be done with each job that may start, first what is decided, then what waits."""
    other = {
        d.job: ACTIONS.get(d.action, d.action) for d in (answer.fallback.decisions if answer.fallback else ())
    }
    decided = {decision.job: decision for decision in answer.decisions}
    reasons = {reason.job: reason for reason in answer.waiting or ()}
    later = [label for label in mapped.rows if label not in decided]
    found = []
    for label in [job for job in decided if job in mapped.rows] + later:
        job, requested_s, demand = mapped.rows[label]
        decision, reason = decided.get(label), reasons.get(label)
        found.append(
            {
                "job": label,
                "user": job.user,
                "partition": ",".join(job.partitions),
                "since": job.since,
                "waits_s": mapped.request.now - job.since,
                "nodes": job.node_count,
                "cpus": job.cpus,
                "demand": demand,
                "requested_s": requested_s,
                "priority": job.priority,
                "action": "wait" if decision is None else decision.action,
                "what": "wait" if decision is None else ACTIONS.get(decision.action, decision.action),
                "at": None if decision is None else decision.at,
                "why": None if reason is None else reason.detail,
                "score": None if decision is None else decision.score,
                "fallback": other.get(label, "wait") if answer.fallback else None,
                "unknown": list(job.unknown),
            }
        )
    return found


def as_json(mapped: Mapped, answer: Answer, notes: list[str], release: str | None) -> dict[str, Any]:
    """All of it as plain values.

    Args:
        mapped: what was asked about.
        answer: what was said.
        notes: what to know, in lines.
        release: of Slurm, where it says so.
    """
    found, problems = changes(mapped, answer)
    return {
        "schema": 1,
        "slurm": release,
        "at": mapped.request.now,
        "counts": list(mapped.kinds),
        "units": mapped.request.units,
        "free": mapped.request.free,
        "out_of_service": mapped.out,
        "unexplained": mapped.unexplained,
        "running": len(mapped.request.running),
        "decided_by": answer.decided_by,
        "agrees": answer.agrees,
        "decisions": to_builtins(answer.decisions),
        "fallback": to_builtins(answer.fallback),
        "jobs": [
            {name: value for name, value in row.items() if name != "what"} for row in rows_of(mapped, answer)
        ],
        "left_out": {
            reason: {"jobs": left.jobs, "count": left.count} for reason, left in mapped.left_out.items()
        },
        "scontrol": [
            {"job": change.job, "command": change.command, "undo": change.undo, "why": change.why}
            for change in found
        ],
        "notes": [*notes, *problems],
    }

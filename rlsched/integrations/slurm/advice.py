"""Advice about a cluster: one row per job, and all of it as JSON."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from rlsched.integrations.slurm.cluster_view import SlurmView
from rlsched.integrations.slurm.scontrol import nice_updates
from rlsched.serve.api.schema import Answer

ACTIONS = {"start": "start", "reserve": "reserve units"}  # of a policy, in words


def advice_rows(view: SlurmView, answer: Answer) -> list[dict[str, Any]]:
    """One row for each job that may start: first the decided ones, then those that wait."""
    heuristic = {
        decision.job: ACTIONS.get(decision.action, decision.action)
        for decision in (answer.fallback.decisions if answer.fallback else ())
    }
    decided = {decision.job: decision for decision in answer.decisions}
    reasons = {reason.job: reason for reason in answer.waiting or ()}
    undecided = [label for label in view.rows if label not in decided]
    rows = []
    for label in [job for job in decided if job in view.rows] + undecided:
        job, requested_s, demand = view.rows[label]
        decision, reason = decided.get(label), reasons.get(label)
        rows.append(
            {
                "job": label,
                "user": job.user,
                "partition": ",".join(job.partitions),
                "since": job.since,
                "waits_s": view.request.now - job.since,
                "nodes": job.node_count,
                "cpus": job.cpus,
                "demand": demand,
                "requested_s": requested_s,
                "priority": job.priority,
                "action": "wait" if decision is None else decision.action,
                "action_text": "wait" if decision is None else ACTIONS.get(decision.action, decision.action),
                "at": None if decision is None else decision.at,
                "why": None if reason is None else reason.detail,
                "score": None if decision is None else decision.score,
                "fallback": heuristic.get(label, "wait") if answer.fallback else None,
                "unknown": list(job.unsupported),
            }
        )
    return rows


def advice_json(view: SlurmView, answer: Answer, notes: list[str], release: str | None) -> dict[str, Any]:
    """All advice as plain values, with the version of Slurm (None: unknown) and lines for the operator."""
    updates, problems = nice_updates(view, answer)
    return {
        "schema": 1,
        "slurm": release,
        "at": view.request.now,
        "counts": list(view.kinds),
        "units": view.request.units,
        "free": view.request.free,
        "out_of_service": view.out_of_service,
        "unexplained": view.unexplained,
        "running": len(view.request.running),
        "decided_by": answer.decided_by,
        "agrees": answer.agrees,
        "decisions": to_builtins(answer.decisions),
        "fallback": to_builtins(answer.fallback),
        "jobs": [
            {name: value for name, value in row.items() if name != "action_text"}
            for row in advice_rows(view, answer)
        ],
        "left_out": {
            reason: {"jobs": excluded.jobs, "count": excluded.count}
            for reason, excluded in view.excluded.items()
        },
        "scontrol": [
            {"job": update.job, "command": update.command, "undo": update.undo, "why": update.reason}
            for update in updates
        ],
        "notes": [*notes, *problems],
    }

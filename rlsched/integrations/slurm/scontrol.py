"""Decisions as scontrol commands, for an operator to read and run.

Slurm starts jobs itself, so advice becomes an order of the queue. Commands set Nice: Slurm's priority plugin
still counts age and share, and the former value undoes the change. An explicit Priority would freeze the job
until it is held and released. scontrol top only moves a job among those of its user. A forgotten hold keeps a
job for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlsched.integrations.slurm.cluster_view import SlurmView
from rlsched.integrations.slurm.queue import PendingJob
from rlsched.integrations.slurm.values import printable
from rlsched.serve.api.schema import Answer

GAP = 1000  # difference of priority between neighbours; ages change priorities until Slurm schedules next
MAX_NICE = 2_147_483_645  # largest magnitude that scontrol accepts

MAX_LABELS = 20

_ID = re.compile(r"[1-9]\d{0,9}(_\d{1,10})?")


@dataclass(frozen=True)
class NiceUpdate:
    """A change of a job's nice value, and so of its place in the queue."""

    job: str  # id as scontrol takes it
    nice: int  # new value
    previous: int  # value before
    reason: str  # for people

    @property
    def command(self) -> str:
        """The command that makes the change."""
        return f"scontrol update JobId={self.job} Nice={self.nice}"

    @property
    def undo(self) -> str:
        """The command that undoes the change."""
        return f"scontrol update JobId={self.job} Nice={self.previous}"


def nice_updates(view: SlurmView, answer: Answer) -> tuple[list[NiceUpdate], list[str]]:
    """The fewest changes that put the queue in the order of the decisions, first job first.

    The second list has one line for each job that cannot be moved.
    """
    reasons = {"start": "starts now", "reserve": "is next, units are reserved for it"}
    decided = [
        (view.rows[decision.job].job, reasons[decision.action])
        for decision in answer.decisions
        if decision.action in reasons and decision.job in view.rows
    ]
    # A job with a reservation that starts later in the same answer keeps the first place.
    order = {job.label: (job, reason) for job, reason in decided}
    undecided = (row.job.priority or 0 for label, row in view.rows.items() if label not in order)
    highest = max(undecided, default=0)
    updates, problems = [], []
    for job, reason in reversed(order.values()):
        priority = job.priority
        if priority is None:
            problems.append(f"job {job.label}: squeue has no priority for it; it stays where it is")
            continue
        if priority > highest:
            highest = priority
            continue
        nice = job.nice - (highest + GAP - priority)
        if nice < -MAX_NICE:
            problems.append(f"job {job.label}: its priority cannot be raised that far; it stays where it is")
            continue
        highest += GAP
        text = f"{reason}; {job.user}, {','.join(job.partitions)}"
        updates.append(NiceUpdate(_job_id(job), nice, job.nice, text))
    return updates[::-1], problems


def _job_id(job: PendingJob) -> str:
    text = str(job.label)
    assert _ID.fullmatch(text), text  # job_label makes it of numbers alone
    return text


def script(view: SlurmView, answer: Answer, notes: Iterable[str]) -> str:
    """A shell script: notes as comments, commands, and as comments the commands that undo them."""
    updates, problems = nice_updates(view, answer)
    lines = ["# Read this before you run it. None of it has been run."]
    lines += [f"# {printable(note)}" for note in notes]
    if not updates:
        lines.append("# Nothing to do: the queue is in the order of the decisions.")
    for update in updates:
        lines.append(f"# {printable(f'{update.job} {update.reason}')}")
        lines.append(update.command)
    lines += [f"# {printable(problem)}" for problem in problems]
    lines += _not_started(answer)
    if updates:
        lines.append("# To undo it, and before the next advice:")
        lines += [f"# {update.undo}" for update in reversed(updates)]
    return "\n".join(lines) + "\n"


def _not_started(answer: Answer) -> Sequence[str]:
    """Comment on the jobs that Slurm will start and the policy would not."""
    delayed = [str(reason.job) for reason in answer.waiting or () if reason.reason == "may_start"]
    if not delayed:
        return ()
    more = f" and {len(delayed) - MAX_LABELS} more" if len(delayed) > MAX_LABELS else ""
    return (
        f"# The policy does not start these, though they fit: {', '.join(delayed[:MAX_LABELS])}{more}.",
        "# Slurm starts them where they fit: nothing here holds them, since a forgotten hold stays.",
    )

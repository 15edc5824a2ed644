"""Decisions as commands of scontrol, for an operator to look through and run.

Slurm starts jobs itself, so that advice becomes an order of the queue. It is written as Nice, since that
leaves a job to Slurm's priority plugin (its age and share go on counting) and is undone by the value it had.
An explicit Priority would freeze it until the job is held and released; scontrol top only moves a job among
those of its own user; a hold that is forgotten keeps a job for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlsched.integrations.slurm.mapping import Mapped
from rlsched.integrations.slurm.queue import Pending
from rlsched.integrations.slurm.values import plain
from rlsched.serve.api.schema import Answer

GAP = 1000
"""Of priorities of jobs that follow each other: they move by age until Slurm looks at them."""

MOST_NICE = 2_147_483_645
"""Either way, as scontrol takes it."""

NAMED = 20

_ID = re.compile(r"[1-9]\d{0,9}(_\d{1,10})?")


@dataclass(frozen=True)
class Change:
    """A job's place in the queue.

    Attributes:
        job: id as scontrol takes it.
        nice: that puts it there.
        before: that it has.
        why: for people.
    """

    job: str
    nice: int
    before: int
    why: str

    @property
    def command(self) -> str:
        """That does it."""
        return f"scontrol update JobId={self.job} Nice={self.nice}"

    @property
    def undo(self) -> str:
        """That takes it back."""
        return f"scontrol update JobId={self.job} Nice={self.before}"


def changes(mapped: Mapped, answer: Answer) -> tuple[list[Change], list[str]]:
    """What has to change for the queue to be in the order of the decisions, and nothing more.

    Args:
        mapped: what was asked about.
        answer: what was said.

    Returns:
        Changes, first job first, and what could not be put into one, in words.
    """
    whys = {"start": "starts now", "reserve": "is next, units are kept for it"}
    decided = [
        (mapped.rows[decision.job].job, whys[decision.action])
        for decision in answer.decisions
        if decision.action in whys and decision.job in mapped.rows
    ]
    # A job that units are kept for, and that starts later in the same answer, keeps the first place.
    order = {job.label: (job, why) for job, why in decided}
    others = (row.job.priority or 0 for label, row in mapped.rows.items() if label not in order)
    above = max(others, default=0)
    found, problems = [], []
    for job, why in reversed(order.values()):
        priority = job.priority
        if priority is None:
            problems.append(f"job {job.label}: squeue tells no priority of it; it stays where it is")
            continue
        if priority > above:
            above = priority
            continue
        nice = job.nice - (above + GAP - priority)
        if nice < -MOST_NICE:
            problems.append(f"job {job.label}: its priority cannot be raised that far; it stays where it is")
            continue
        above += GAP
        found.append(Change(_checked(job), nice, job.nice, f"{why}; {job.user}, {','.join(job.partitions)}"))
    return found[::-1], problems


def _checked(job: Pending) -> str:
    text = str(job.label)
    assert _ID.fullmatch(text), text  # made of numbers alone, by jobs._label
    return text


def script(mapped: Mapped, answer: Answer, notes: Iterable[str]) -> str:
    """A shell script: comments, the commands, and as comments those that take them back.

    Args:
        mapped: what was asked about.
        answer: what was said.
        notes: what to know, in lines.
    """
    found, problems = changes(mapped, answer)
    lines = ["# Look through this before you run it. Nothing of it has been run."]
    lines += [f"# {plain(note)}" for note in notes]
    if not found:
        lines.append("# Nothing to do: the queue is in the order of the decisions.")
    for change in found:
        lines.append(f"# {plain(f'{change.job} {change.why}')}")
        lines.append(change.command)
    lines += [f"# {plain(problem)}" for problem in problems]
    lines += _let_wait(answer)
    if found:
        lines.append("# To take it back, and before the next advice:")
        lines += [f"# {change.undo}" for change in reversed(found)]
    return "\n".join(lines) + "\n"


def _let_wait(answer: Answer) -> Sequence[str]:
    """Jobs that Slurm will start where the policy would not."""
    held_back = [str(reason.job) for reason in answer.waiting or () if reason.reason == "may_start"]
    if not held_back:
        return ()
    more = f" and {len(held_back) - NAMED} more" if len(held_back) > NAMED else ""
    return (
        f"# The policy lets wait what could start: {', '.join(held_back[:NAMED])}{more}.",
        "# Slurm starts these where they fit: nothing here holds them, since a hold that is forgotten stays.",
    )

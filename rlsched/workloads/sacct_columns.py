"""Columns of sacct's output: which fields of a line a job is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

from rlsched.errors import BadInputError
from rlsched.workloads.slurm_output import span_s

COMMAND = (
    "SLURM_TIME_FORMAT=%s sacct --allusers --allocations --parsable2 --starttime 2025-01-01 --endtime now "
    "--format JobID,JobIDRaw,User,Account,Partition,State,Submit,Eligible,Start,End,ElapsedRaw,"
    "TimelimitRaw,ReqCPUS,AllocCPUS"
)
"""The command for a site."""


class Columns:
    """Positions of a job's fields in a line.

    Args:
        names: column names, from the first line.
        where: name of the input in errors.
        eligible: jobs count as submitted at their eligible time.

    Attributes:
        count: number of columns.
        unused: names of the columns that are not read.
        pick: id, state, submit, start, end, runtime, allocated and requested processors, limit, user, account
            and queue, from the fields of a line and one empty field after them, for missing columns.
        id: position of the job id.
        cluster: position of the cluster name; None: missing.
        queued: position of the submit time, where the eligible time replaces it; None: it does not.
        has_end: there is a column of end times.
        processors, limit_s: parsers of the texts of these columns.

    Raises:
        BadInputError: a column is missing.
    """

    def __init__(self, names: Sequence[str], where: str, *, eligible: bool) -> None:
        self._where = where
        self._positions = {name.strip().lower().removeprefix("\ufeff"): k for k, name in enumerate(names)}
        self._used: set[int] = set()
        self.count = len(names)
        self.id = self._required("jobid", "jobidraw")
        self._optional("jobidraw")
        self.queued = self._optional("submit") if eligible else None
        submit, start = self._required("eligible" if eligible else "submit"), self._required("start")
        elapsed = self._optional("elapsedraw", "elapsed")
        end = self._optional("end") if elapsed is not None else self._required("end", "elapsedraw")
        allocated = self._optional("alloccpus", "ncpus")
        tres = self._optional("alloctres") if allocated is None else None
        requested = self._optional("reqcpus")
        if allocated is None and tres is None and requested is None:
            self._required("alloccpus")
        minutes = self._optional("timelimitraw")
        limit = self._optional("timelimit") if minutes is None else minutes
        state = self._optional("state")
        if end is None and state is None:
            self._required("end", "state")  # one of them says which jobs still run
        self.processors: Callable[[str], int] = _whole if tres is None else _tres_cpus
        self.limit_s: Callable[[str], int] = span_s if minutes is None else _minutes_s
        positions = (
            self.id,
            state,
            submit,
            start,
            start if end is None else end,
            elapsed,
            tres if allocated is None else allocated,
            requested,
            limit,
            self._optional("user", "uid"),
            self._optional("account", "group", "gid"),
            self._optional("partition"),
        )
        self.cluster = self._optional("cluster")
        self.has_end = end is not None
        self.pick = itemgetter(*(self.count if position is None else position for position in positions))
        self.unused = [name for k, name in enumerate(names) if k not in self._used and name.strip()]

    def _optional(self, *names: str) -> int | None:
        """Position of the first of these columns; None: all are missing."""
        position = next((self._positions[name] for name in names if name in self._positions), None)
        if position is not None:
            self._used.add(position)
        return position

    def _required(self, *names: str) -> int:
        position = self._optional(*names)
        if position is None:
            problem = f"has no column {names[0]} in its first line"
            raise BadInputError(self._where, problem, f"run: {COMMAND}")
        return position


def _whole(text: str) -> int:
    return int(text or 0)


def _tres_cpus(tres: str) -> int:
    return int(dict(part.partition("=")[::2] for part in tres.split(",")).get("cpu", 0))


def _minutes_s(text: str) -> int:
    return 60 * int(text)

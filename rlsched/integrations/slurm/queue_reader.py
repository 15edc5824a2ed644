"""Reads jobs from the output of squeue: those that hold units, those that may start, and the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from msgspec.json import Decoder

from rlsched.integrations.slurm.command_output import CommandOutput
from rlsched.integrations.slurm.job_records import (
    JobRecord,
    job_label,
    needs_whole_nodes,
    pending_tasks,
    unsupported_requests,
)
from rlsched.integrations.slurm.queue import AllocatedJob, ExcludedJobs, PendingJob, Queue
from rlsched.integrations.slurm.tres import job_gres, tres_counts
from rlsched.integrations.slurm.values import (
    MAX_ID,
    MAX_LIMIT_MINUTES,
    ClusterName,
    Location,
    Number,
    is_infinite,
    printable,
    upper_words,
)
from rlsched.serve.api.schema import FAR

MAX_SKEW_S = 3600  # longest time that an event may be after now: the clocks of two machines differ

CAPACITY_REASONS = frozenset(("", "NONE", "PRIORITY", "RESOURCES", "JOBARRAYTASKLIMIT"))
"""Reasons of pending jobs that may start once units, or their turn, come. Other jobs are excluded."""

HELD = ("REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD", "REVOKED")
ALLOCATED = (
    *("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "RESIZING"),
    *("SIGNALING", "POWER_UP_NODE", "REQUEUED"),  # v0.0.38 prints these in place of the base state
)
ENDED = (
    *("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE"),
    *("OUT_OF_MEMORY", "LAUNCH_FAILED", "STAGE_OUT"),
)
_DECODER = Decoder(JobRecord)
KNOWN = frozenset(("PENDING", *ALLOCATED, *ENDED, *HELD))


class _Candidate(NamedTuple):
    """A job that may start: since when (Unix seconds), index of its record, label of its array task."""

    since: int
    k: int
    task: str | None = None


@dataclass(frozen=True)
class _Array:
    """The pending tasks of a job array in one record."""

    candidate: _Candidate
    job_id: int
    tasks: tuple[range, ...]
    at_once: int

    def candidates(self) -> Iterator[_Candidate]:
        """One candidate per task; a task with a record of its own is one candidate."""
        if not self.tasks:
            yield self.candidate
        for part in self.tasks:
            for task in part:
                yield self.candidate._replace(task=f"{self.job_id}_{task}")


class QueueReader:
    """Reads the jobs of squeue: those that hold units, and the pending ones of a partition, if named.

    The time `now` is in Unix seconds. At most `max_jobs` pending jobs stay, the oldest ones.
    """

    def __init__(self, output: CommandOutput, now: int, partition: str | None, max_jobs: int) -> None:
        self._output, self._partition, self._max_jobs = output, partition, max_jobs
        self._latest = now + MAX_SKEW_S
        self._now = now
        self._allocated: list[AllocatedJob] = []
        self._candidates: list[_Candidate] = []
        self._arrays: list[_Array] = []
        self._running_tasks: Counter[int] = Counter()
        self._excluded: dict[str, ExcludedJobs] = {}
        self._omitted = 0
        self._cluster = ClusterName()

    def read(self) -> Queue:
        """Read all jobs.

        Raises:
            BadInputError: a job is invalid, occurs twice, or is of another cluster than those before it.
        """
        ids: set[int] = set()
        for k in range(len(self._output.records)):
            record, location = self._output.decode(k, _DECODER), self._output.location(k)
            self._cluster.add(location, "cluster", record.cluster)
            if record.job_id in ids:
                location.refuse("job_id", f"value {record.job_id} occurs twice", "take the file again")
            ids.add(record.job_id)
            self._add(record, k, location)
        self._expand_arrays()
        self._keep_oldest()
        pending = [self._pending_job(candidate) for candidate in self._candidates]
        self._check_labels(pending)
        return Queue(self._allocated, pending, self._excluded, self._omitted, self._now, self._cluster.name)

    def _add(self, record: JobRecord, k: int, location: Location) -> None:
        states = set(upper_words(record.job_state))
        if not states & KNOWN:
            text = printable(", ".join(sorted(states)))[:60]
            location.refuse("job_state", f"value {text!r} is not a known state")
        if states.intersection(ALLOCATED):
            self._add_allocated(record, location, states)
        elif states & {"PENDING", *HELD}:
            self._add_pending(record, k, location, states)

    def _past_time(self, location: Location, field: str, value: Number) -> int | None:
        """A time in the past, Unix seconds; a clock may be ahead by `MAX_SKEW_S`."""
        time_s = location.integer(field, value, FAR - 1) or None
        if time_s is not None and time_s > self._latest:
            remedy = "check the clocks, or give the time of the files with --at"
            location.refuse(field, f"value {time_s} is later than now, {self._now}", remedy)
        if time_s is not None:
            self._now = max(self._now, time_s)
        return time_s

    def _submit(self, record: JobRecord, location: Location) -> int:
        submit = self._past_time(location, "submit_time", record.submit_time)
        if submit is None:
            location.refuse("submit_time", "is not set")
        return submit

    def _add_allocated(self, record: JobRecord, location: Location, states: set[str]) -> None:
        submit = self._submit(record, location)
        pending = "PENDING" in states  # it was requeued: its start time is an estimate of the next start
        start = submit if pending else self._past_time(location, "start_time", record.start_time) or submit
        limit_s = location.minutes("time_limit", record.time_limit) or 1
        end = location.integer("end_time", record.end_time, FAR - 1) or 0
        if "COMPLETING" in states:
            end = start + 1  # it is over: its units come free once its nodes are cleaned up
        elif end <= start:
            end = start + limit_s
        end = min(end, FAR - 1)
        array = location.integer("array_job_id", record.array_job_id)
        if array and not pending:
            self._running_tasks[array] += 1
        suspended = "SUSPENDED" in states and not states & {"STOPPED", "COMPLETING"}
        cpus = 0 if suspended else tres_counts(location, "tres_alloc_str", record.tres_alloc_str).get("cpu")
        self._allocated.append(
            AllocatedJob(
                label=job_label(record, location),
                start=start,
                end=end,
                submit=min(submit, start),
                cpus=self._cpus(record, location) if cpus is None else cpus,
                node_count=location.integer("node_count", record.node_count) or 1,
                nodes=record.nodes or "",
                gres=job_gres(location, record, allocated=True),
                partition=printable(record.partition or ""),
            )
        )

    def _cpus(self, record: JobRecord, location: Location) -> int:
        requested = tres_counts(location, "tres_req_str", record.tres_req_str).get("cpu") or 0
        cpus = max(requested, location.integer("cpus", record.cpus) or 0)
        cpus = cpus or location.integer("tasks", record.tasks) or 0
        if not cpus:
            location.refuse("cpus", "is missing, and not in tres_req_str")
        return cpus

    def _add_pending(self, record: JobRecord, k: int, location: Location, states: set[str]) -> None:
        submit = self._submit(record, location)
        partitions = (record.partition or "").split(",")
        if self._partition is not None and self._partition not in map(printable, partitions):
            return
        eligible = location.integer("eligible_time", record.eligible_time, FAR - 1) or submit
        reason = self._exclusion(record, location, states, eligible)
        tasks = pending_tasks(record, location)
        if reason is not None:
            excluded = self._excluded.setdefault(reason, ExcludedJobs())
            excluded.add(job_label(record, location), max(1, sum(map(len, tasks))))
            return
        candidate = _Candidate(max(submit, min(eligible, self._now)), k)
        array = location.integer("array_job_id", record.array_job_id, MAX_ID)
        at_once = location.integer("array_max_tasks", record.array_max_tasks) or 0
        if array and (tasks or at_once):
            self._arrays.append(_Array(candidate, array, tasks, at_once))
        else:
            self._candidates.append(candidate)
            self._keep_oldest(2 * self._max_jobs)

    def _pending_job(self, candidate: _Candidate) -> PendingJob:
        """Decode a candidate's record again: of a million candidates, few are kept."""
        k = candidate.k
        record, location = self._output.decode(k, _DECODER), self._output.location(k)
        limit = location.integer("time_limit", record.time_limit, MAX_LIMIT_MINUTES)
        return PendingJob(
            label=candidate.task or job_label(record, location),
            location=location,
            user=printable(record.user_name or "?"),
            partitions=tuple(printable(part) for part in (record.partition or "").split(",") if part),
            since=candidate.since,
            limit_s=location.minutes("time_limit", record.time_limit),
            unlimited=is_infinite(record.time_limit) or limit == 0,
            cpus=self._cpus(record, location),
            node_count=location.integer("node_count", record.node_count) or 1,
            whole_nodes=needs_whole_nodes(record),
            gres=job_gres(location, record, allocated=False),
            priority=location.integer("priority", record.priority, MAX_ID),
            nice=location.signed("nice", record.nice) or 0,
            unsupported=unsupported_requests(record, location),
        )

    def _exclusion(
        self, record: JobRecord, location: Location, states: set[str], eligible: int
    ) -> str | None:
        """Why a job may not start even on an empty cluster; None: it may."""
        reason = printable(record.state_reason or "")
        if states & set(HELD):
            return "held: requeued"
        if reason.upper() not in CAPACITY_REASONS:
            return reason
        if record.hold or location.integer("priority", record.priority, MAX_ID) == 0:
            return "held: its priority is 0"
        if record.dependency:
            return "Dependency"
        if eligible > self._now:
            return "BeginTime"
        if location.integer("het_job_id", record.het_job_id):
            return "part of a heterogeneous job, whose parts start together"
        if record.resv_name:
            return "runs in a reservation of its own"
        return None

    def _expand_arrays(self) -> None:
        """Make a candidate of each array task, as many as may run at once."""
        for array in self._arrays:
            tasks = sum(map(len, array.tasks)) or 1
            allowed = tasks
            if array.at_once:
                allowed = max(0, min(tasks, array.at_once - self._running_tasks[array.job_id]))
                self._running_tasks[array.job_id] += allowed
            if allowed < tasks:
                excluded = self._excluded.setdefault("JobArrayTaskLimit", ExcludedJobs())
                excluded.add(array.job_id, tasks - allowed)
            added = min(allowed, self._max_jobs)
            self._omitted += allowed - added
            self._candidates += islice(array.candidates(), added)
            self._keep_oldest(2 * self._max_jobs)

    def _keep_oldest(self, threshold: int = 0) -> None:
        """Drop the newest candidates where there are more than `threshold`, to bound memory."""
        if len(self._candidates) > threshold:
            self._candidates.sort(key=lambda candidate: candidate.since)
            self._omitted += max(0, len(self._candidates) - self._max_jobs)
            del self._candidates[self._max_jobs :]

    def _check_labels(self, pending: list[PendingJob]) -> None:
        labels: set[int | str] = {job.label for job in self._allocated}
        for job in pending:
            if job.label in labels:
                problem = f"task {job.label} occurs twice"
                job.location.refuse("array_task_string", problem, "take the file again")
            labels.add(job.label)

"""Jobs as squeue tells of them: which hold units, which may start, and which may not and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from rlsched.integrations.slurm.answers import Answer, Records
from rlsched.integrations.slurm.queue import Held, LeftOut, Pending, Queue
from rlsched.integrations.slurm.records import Record, label_of, tasks_of, unknown_of, whole_nodes
from rlsched.integrations.slurm.tres import counted, demanded
from rlsched.integrations.slurm.values import (
    ID_MOST,
    LONGEST_MINUTES,
    Number,
    OneCluster,
    Place,
    infinite,
    plain,
    words,
)
from rlsched.serve.api.schema import FAR

SKEW_S = 3600
"""That a job may have begun after now: the clocks of two machines differ."""

CAPACITY = frozenset(("", "NONE", "PRIORITY", "RESOURCES", "JOBARRAYTASKLIMIT"))
"""Reasons for which a job waits that units, or its turn, would end. All others wait for something else."""

HELD = ("REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD", "REVOKED")
HOLDING = (
    *("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "RESIZING"),
    *("SIGNALING", "POWER_UP_NODE", "REQUEUED"),  # which v0.0.38 tells instead of the state that they go with
)
ENDED = (
    *("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE"),
    *("OUT_OF_MEMORY", "LAUNCH_FAILED", "STAGE_OUT"),
)
KNOWN = frozenset(("PENDING", *HOLDING, *ENDED, *HELD))


def read_queue(answer: Answer, now: int, partition: str | None, most: int) -> Queue:
    """Sort jobs by what may be done with them.

    Args:
        answer: of squeue.
        now: Unix seconds.
        partition: that jobs wait for; None: any.
        most: jobs that may start which are kept.

    Raises:
        BadInputError: a job means nothing, is there twice, or is of another cluster than others.
    """
    return _Sorting(answer, now, partition, most).queue()


class _Waits(NamedTuple):
    """A job that may start: since when it waits, its record, and which task of it."""

    since: int
    k: int
    task: str | None = None


@dataclass(frozen=True)
class _Array:
    """Pending tasks of a job array that one record stands for."""

    waits: _Waits
    job_id: int
    tasks: tuple[range, ...]
    at_once: int

    def each(self) -> Iterator[_Waits]:
        """Task by task; one task of an array has a record of its own."""
        if not self.tasks:
            yield self.waits
        for part in self.tasks:
            for task in part:
                yield self.waits._replace(task=f"{self.job_id}_{task}")


class _Sorting:
    def __init__(self, answer: Answer, now: int, partition: str | None, most: int) -> None:
        self._answer, self._partition, self._most = answer, partition, most
        self._records = Records(answer, Record)
        self._latest = now + SKEW_S
        self._now = now
        self._held: list[Held] = []
        self._waits: list[_Waits] = []
        self._arrays: list[_Array] = []
        self._running_tasks: Counter[int] = Counter()
        self._left_out: dict[str, LeftOut] = {}
        self._too_many = 0
        self._cluster = OneCluster()

    def queue(self) -> Queue:
        seen: set[int] = set()
        for k in range(len(self._answer.records)):
            record, place = self._records[k], self._answer.place(k)
            self._cluster.add(place, "cluster", record.cluster)
            if record.job_id in seen:
                place.refuse("job_id", f"value {record.job_id} stands there twice", "take the file again")
            seen.add(record.job_id)
            self._sort(record, k, place)
        self._expand()
        self._keep_oldest()
        pending = [self._pending(waits) for waits in self._waits]
        self._check_labels(pending)
        return Queue(self._held, pending, self._left_out, self._too_many, self._now, self._cluster.name)

    def _sort(self, record: Record, k: int, place: Place) -> None:
        states = set(words(record.job_state))
        if not states & KNOWN:
            told = plain(", ".join(sorted(states)))[:60]
            place.refuse("job_state", f"value {told!r} is no state that is known here")
        if states.intersection(HOLDING):
            self._hold(record, place, states)
        elif states & {"PENDING", *HELD}:
            self._wait(record, k, place, states)

    def _past(self, place: Place, name: str, value: Number) -> int | None:
        """A time that has come, or nearly."""
        moment = place.whole(name, value, FAR - 1) or None
        if moment is not None and moment > self._latest:
            remedy = "look at the clocks, or give the time of the files with --at"
            place.refuse(name, f"value {moment} is later than now, {self._now}", remedy)
        if moment is not None:
            self._now = max(self._now, moment)
        return moment

    def _submit(self, record: Record, place: Place) -> int:
        submit = self._past(place, "submit_time", record.submit_time)
        if submit is None:
            place.refuse("submit_time", "is not set")
        return submit

    def _hold(self, record: Record, place: Place, states: set[str]) -> None:
        submit = self._submit(record, place)
        pending = "PENDING" in states  # it was requeued, and its start is a guess of the next one
        start = submit if pending else self._past(place, "start_time", record.start_time) or submit
        limit = place.whole("time_limit", record.time_limit, LONGEST_MINUTES)
        end = place.whole("end_time", record.end_time, FAR - 1) or 0
        if "COMPLETING" in states:
            end = start + 1  # it is over: what it holds comes free when its nodes are clean
        elif end <= start:
            end = start + 60 * limit if limit else start + 1
        end = min(end, FAR - 1)
        array = place.whole("array_job_id", record.array_job_id)
        if array and not pending:
            self._running_tasks[array] += 1
        suspended = "SUSPENDED" in states and not states & {"STOPPED", "COMPLETING"}
        cpus = 0 if suspended else counted(place, "tres_alloc_str", record.tres_alloc_str).get("cpu")
        self._held.append(
            Held(
                label=label_of(record, place),
                start=start,
                end=end,
                submit=min(submit, start),
                cpus=self._cpus(record, place) if cpus is None else cpus,
                node_count=place.whole("node_count", record.node_count) or 1,
                nodes=record.nodes or "",
                gres=demanded(place, record, allocated=True),
                partition=plain(record.partition or ""),
            )
        )

    def _cpus(self, record: Record, place: Place) -> int:
        asked = counted(place, "tres_req_str", record.tres_req_str).get("cpu") or 0
        cpus = max(asked, place.whole("cpus", record.cpus) or 0) or place.whole("tasks", record.tasks) or 0
        if not cpus:
            place.refuse("cpus", "is missing, and not in tres_req_str")
        return cpus

    def _wait(self, record: Record, k: int, place: Place, states: set[str]) -> None:
        submit = self._submit(record, place)
        partitions = (record.partition or "").split(",")
        if self._partition is not None and self._partition not in map(plain, partitions):
            return
        eligible = place.whole("eligible_time", record.eligible_time, FAR - 1) or submit
        reason = self._reason(record, place, states, eligible)
        tasks = tasks_of(record, place)
        if reason is not None:
            left = self._left_out.setdefault(reason, LeftOut())
            left.add(label_of(record, place), max(1, sum(map(len, tasks))))
            return
        waits = _Waits(max(submit, min(eligible, self._now)), k)
        array = place.whole("array_job_id", record.array_job_id, ID_MOST)
        at_once = place.whole("array_max_tasks", record.array_max_tasks) or 0
        if array and (tasks or at_once):
            self._arrays.append(_Array(waits, array, tasks, at_once))
        else:
            self._waits.append(waits)
            self._keep_oldest(2 * self._most)

    def _pending(self, waits: _Waits) -> Pending:
        """A job that waits, looked at once more: of a million, few are kept."""
        record, place = self._records[waits.k], self._answer.place(waits.k)
        limit = place.whole("time_limit", record.time_limit, LONGEST_MINUTES)
        return Pending(
            label=waits.task or label_of(record, place),
            place=place,
            user=plain(record.user_name or "?"),
            partitions=tuple(plain(part) for part in (record.partition or "").split(",") if part),
            since=waits.since,
            limit_s=60 * limit if limit else None,
            unlimited=infinite(record.time_limit) or limit == 0,
            cpus=self._cpus(record, place),
            node_count=place.whole("node_count", record.node_count) or 1,
            whole_nodes=whole_nodes(record),
            gres=demanded(place, record, allocated=False),
            priority=place.whole("priority", record.priority, ID_MOST),
            nice=place.signed("nice", record.nice) or 0,
            unknown=unknown_of(record, place),
        )

    def _reason(self, record: Record, place: Place, states: set[str], eligible: int) -> str | None:
        """Why a job may not start, whatever is free; None: it may."""
        told = plain(record.state_reason or "")
        if states & set(HELD):
            return "held: requeued"
        if told.upper() not in CAPACITY:
            return told
        if record.hold or place.whole("priority", record.priority, ID_MOST) == 0:
            return "held: its priority is 0"
        if record.dependency:
            return "Dependency"
        if eligible > self._now:
            return "BeginTime"
        if place.whole("het_job_id", record.het_job_id):
            return "part of a heterogeneous job, whose parts start together"
        if record.resv_name:
            return "runs in a reservation of its own"
        return None

    def _expand(self) -> None:
        """Tasks of arrays, each as a job of its own, as many as may run at once."""
        for array in self._arrays:
            whole = sum(map(len, array.tasks)) or 1
            allowed = whole
            if array.at_once:
                allowed = max(0, min(whole, array.at_once - self._running_tasks[array.job_id]))
                self._running_tasks[array.job_id] += allowed
            if allowed < whole:
                left = self._left_out.setdefault("JobArrayTaskLimit", LeftOut())
                left.add(array.job_id, whole - allowed)
            kept = min(allowed, self._most)
            self._too_many += allowed - kept
            self._waits += islice(array.each(), kept)
            self._keep_oldest(2 * self._most)

    def _keep_oldest(self, beyond: int = 0) -> None:
        """Jobs that wait longest, where there are more than `beyond`: a million need the room of a few."""
        if len(self._waits) > beyond:
            self._waits.sort(key=lambda waits: waits.since)
            self._too_many += max(0, len(self._waits) - self._most)
            del self._waits[self._most :]

    def _check_labels(self, pending: list[Pending]) -> None:
        seen: set[int | str] = {job.label for job in self._held}
        for job in pending:
            if job.label in seen:
                problem = f"task {job.label} stands there twice"
                job.place.refuse("array_task_string", problem, "take the file again")
            seen.add(job.label)

"""Notes on a cluster view: limits and doubts that people should read before they act on advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set

from rlsched.integrations.slurm.advice_settings import UNITS, AdviceSettings
from rlsched.integrations.slurm.allocations import Allocations
from rlsched.integrations.slurm.nodes import Inventory
from rlsched.integrations.slurm.queue import PendingJob, Queue
from rlsched.integrations.slurm.values import printable
from rlsched.report.words import count_of

STALE_S = 600  # age from which on a note calls the output old
MAX_KINDS, MAX_LABELS = 8, 5  # unsupported requests, and jobs for each, that a note lists

AT_ONE_TIME = "take squeue and sinfo at one time, both with --all"
ALL_JOBS = "as a user who may see all jobs (PrivateData)"

GRES_OF_GROUPS = (
    "{kind}: sinfo has one record for several nodes, with the count of one; the others are taken to have "
    "as many. sinfo --all --Node --json has a record for each"
)


def cluster_names(queue: Queue, inventory: Inventory, sinfo_cluster: str | None) -> Iterator[str]:
    """With --clusters, the output names the cluster where the command ran, and its records another one."""
    jobs, nodes = queue.cluster, inventory.cluster.name or sinfo_cluster
    if jobs and nodes and jobs.lower() != nodes.lower():
        yield (
            f"the jobs are of cluster {jobs}, and sinfo's output names {nodes}: run both with the same "
            "--clusters"
        )


def shared_nodes(inventory: Inventory, partition: str | None) -> Iterator[str]:
    """Nodes in several partitions, and CPUs that are reserved for the system."""
    if partition is not None:
        if inventory.shared:
            yield (
                f"{count_of(inventory.shared, 'node')} shared with other partitions: jobs that wait there "
                "may start on units that this advice counts as free"
            )
    elif len(inventory.partitions) > 1:
        shared = f", with {count_of(inventory.shared, 'node')} in several" if inventory.shared else ""
        yield (
            f"{len(inventory.partitions)} partitions count as one cluster{shared}: the nodes of a job's "
            "partition may be too few for the advice; --partition P is about one partition"
        )
    if inventory.specialized:
        yield (
            f"{count_of(inventory.specialized, 'node')} with jobs on CPUs reserved for the system "
            "(CoreSpecCount), which are not counted"
        )


def disagreements(kind: str, *, idle: int, held: int, unexplained: int, free: int) -> Iterator[str]:
    """Units of a resource that squeue and sinfo count differently."""
    if idle > free:
        yield (
            f"{kind}: sinfo has {idle} idle, and jobs hold {held} on nodes in service: {AT_ONE_TIME}; "
            f"{free} are taken to be free"
        )
    if unexplained:
        yield (
            f"{kind}: sinfo has {unexplained} in use that no job of squeue holds: {AT_ONE_TIME}, "
            f"{ALL_JOBS}; {free} are taken to be free"
        )


def allocated_jobs(allocations: Allocations) -> Iterator[str]:
    """Jobs whose units are uncertain."""
    if allocations.partly_outside:
        jobs = count_of(allocations.partly_outside, "job")
        yield f"{jobs} on other nodes, too, or only: their share here counts"
    if allocations.capped:
        yield (
            f"{count_of(allocations.capped, 'time')} a job holds more than others leave, as with shared CPUs "
            f"(OverSubscribe): shared units count once; else {AT_ONE_TIME}"
        )
    if allocations.unreadable:
        jobs = count_of(allocations.unreadable, "job")
        yield f"the node lists of {jobs} cannot be read: the jobs are counted"


def omitted_jobs(omitted: int, max_jobs: int) -> Iterator[str]:
    """Jobs beyond the most that a request may have."""
    if omitted:
        yield (
            f"{count_of(omitted, 'job')} that wait, the newest ones, are not in the request: it has at most "
            f"{max_jobs}, running and waiting"
        )


def differences(settings: AdviceSettings, units: list[int], age_s: int) -> Iterator[str]:
    """A cluster of another size than the policy was trained for, and old output."""
    trained = list(settings.trained_units)
    if trained and trained != units:
        sizes = f"{_sum_text(trained)} units, and this cluster has {_sum_text(units)}"
        yield f"the policy was trained for {sizes}"
    if age_s > STALE_S:
        yield (
            f"squeue's output is {age_s // 60} minutes old, or nothing has happened since: run it again, or "
            "give its time with --at"
        )


def unsupported(jobs: Sequence[PendingJob], kinds: tuple[str, ...], counted: Set[str]) -> Iterator[str]:
    """Requests that the policy does not know, and what no policy knows."""
    counts: Counter[str] = Counter()
    labels: dict[str, list[str]] = {}
    for job in jobs:
        gres = (printable(f"gres/{name}") for name in job.gres if name not in counted)
        for request in (*job.unsupported, *gres):
            counts[request] += 1
            first = labels.setdefault(request, [])
            if len(first) < MAX_LABELS:
                first.append(str(job.label))
    text = "; ".join(
        f"{request} ({count}: {', '.join(labels[request])}{', ...' if count > len(labels[request]) else ''})"
        for request, count in counts.most_common(MAX_KINDS)
    )
    if text:
        yield f"jobs request what the policy does not know: {text}"
    resources = " and ".join(kind if kind in UNITS else f"gres/{kind}" for kind in kinds)
    yield (f"advice: the policy counts {resources}; it does not know topology, memory, QOS or account limits")


def _sum_text(numbers: Sequence[int]) -> str:
    return " + ".join(f"{number:,}" for number in numbers)

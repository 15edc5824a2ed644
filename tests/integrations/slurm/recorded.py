"""The files here, as they are and changed, and what is made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rlsched.integrations.slurm.answers import read_answer
from rlsched.integrations.slurm.asked import Asked
from rlsched.integrations.slurm.mapping import Mapped, map_cluster

FILES = Path(__file__).parent
NOW = 1_760_000_000
VERSIONS = ("22.05.9", "23.02.6", "23.11.10", "24.11.5")
CPUS = Asked(("processors",), default_limit_s=86_400)
NEWEST = "24.11.5"


def mapped(
    squeue: Path | str = FILES / f"squeue-{NEWEST}.json",
    sinfo: Path | str = FILES / f"sinfo-{NEWEST}.json",
    asked: Asked = CPUS,
    now: int = NOW,
) -> Mapped:
    found = read_answer("--squeue", str(squeue)), read_answer("--sinfo", str(sinfo))
    return map_cluster(*found, asked, now)


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FILES / f"{name}-{NEWEST}.json").read_text())
    return found


def written(folder: Path, name: str, content: object) -> Path:
    path = folder / f"{name}.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def job(content: dict[str, Any], job_id: int) -> dict[str, Any]:
    (found,) = (record for record in content["jobs"] if record["job_id"] == job_id)
    return found


def waiting(found: Mapped) -> dict[int | str, tuple[list[int], int, int]]:
    """Job -> demand, requested seconds, submit."""
    return {job.id: (job.demand, job.requested, job.submit) for job in found.request.waiting}


def running(found: Mapped) -> dict[int | str, tuple[list[int], int, int]]:
    """Job -> demand, start and expected end, both from now."""
    return {job.id: (job.demand, job.start - NOW, job.expected_end - NOW) for job in found.request.running}


def cluster(folder: Path, nodes: list[dict[str, Any]], jobs: list[dict[str, Any]]) -> tuple[Path, Path]:
    """Answers in the words of 24.05, where what is left out has its usual value."""

    def number(value: int | None) -> dict[str, Any]:
        return {"set": value is not None, "infinite": False, "number": value or 0}

    told = {"last_update": number(NOW), "meta": {"slurm": {"release": "24.05.3", "cluster": "hpc"}}}
    node = {"state": ["IDLE"], "cpus": 16, "alloc_cpus": 0, "partitions": ["batch"], "gres": ""}
    records = []
    for number_of, given in enumerate(jobs, 1):
        times = {name: number(NOW - 600) for name in ("submit_time", "eligible_time")}
        runs = {"job_state": ["RUNNING"], "start_time": number(NOW - 300), "end_time": number(NOW + 3300)}
        waits = {"job_state": ["PENDING"], "state_reason": "Resources"}
        usual = times | (runs if given.get("nodes") else waits)
        usual |= {"partition": "batch", "time_limit": number(60), "priority": number(100)}
        given = {name: number(value) if isinstance(value, int) else value for name, value in given.items()}
        records.append({"job_id": number_of, **usual, **given})
    squeue = written(folder, "q", told | {"jobs": records})
    return squeue, written(folder, "n", told | {"nodes": [node | given for given in nodes]})


def on(nodes: str, cpus: int, gpus: int = 0, **more: Any) -> dict[str, Any]:
    """A running job; it waits where `nodes` is empty."""
    gres = f",gres/gpu={gpus}" if gpus else ""
    held = f"cpu={cpus},node=1{gres}"
    told = {"nodes": nodes, "cpus": cpus, "node_count": 1, "tres_req_str": held}
    return told | ({"tres_alloc_str": held} if nodes else {}) | more

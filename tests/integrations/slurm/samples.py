"""Sample output of squeue and sinfo, as it is or changed, and its cluster view."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rlsched.integrations.slurm.advice_settings import AdviceSettings
from rlsched.integrations.slurm.cluster_view import SlurmView, build_view
from rlsched.integrations.slurm.command_output import read_output

FILES = Path(__file__).parent
NOW = 1_760_000_000
VERSIONS = ("22.05.9", "23.02.6", "23.11.10", "24.11.5")
CPUS = AdviceSettings(("processors",), default_limit_s=86_400)
NEWEST = "24.11.5"


def view_of(
    squeue: Path | str = FILES / f"squeue-{NEWEST}.json",
    sinfo: Path | str = FILES / f"sinfo-{NEWEST}.json",
    settings: AdviceSettings = CPUS,
    now: int = NOW,
) -> SlurmView:
    outputs = read_output("--squeue", str(squeue)), read_output("--sinfo", str(sinfo))
    return build_view(*outputs, settings, now)


def sample(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FILES / f"{name}-{NEWEST}.json").read_text())
    return content


def write_json(folder: Path, name: str, content: object) -> Path:
    path = folder / f"{name}.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def job(content: dict[str, Any], job_id: int) -> dict[str, Any]:
    (record,) = (record for record in content["jobs"] if record["job_id"] == job_id)
    return record


def waiting(view: SlurmView) -> dict[int | str, tuple[list[int], int, int]]:
    """Job -> demand, requested seconds, submit."""
    return {job.id: (job.demand, job.requested, job.submit) for job in view.request.waiting}


def running(view: SlurmView) -> dict[int | str, tuple[list[int], int, int]]:
    """Job -> demand, start and expected end, both from now."""
    return {job.id: (job.demand, job.start - NOW, job.expected_end - NOW) for job in view.request.running}


def small_cluster(folder: Path, nodes: list[dict[str, Any]], jobs: list[dict[str, Any]]) -> tuple[Path, Path]:
    """Answers in the words of 24.05, where what is left out has its defaults value."""

    def number(value: int | None) -> dict[str, Any]:
        return {"set": value is not None, "infinite": False, "number": value or 0}

    common = {"last_update": number(NOW), "meta": {"slurm": {"release": "24.05.3", "cluster": "hpc"}}}
    node = {"state": ["IDLE"], "cpus": 16, "alloc_cpus": 0, "partitions": ["batch"], "gres": ""}
    records = []
    for job_id, fields in enumerate(jobs, 1):
        times = {name: number(NOW - 600) for name in ("submit_time", "eligible_time")}
        runs = {"job_state": ["RUNNING"], "start_time": number(NOW - 300), "end_time": number(NOW + 3300)}
        waits = {"job_state": ["PENDING"], "state_reason": "Resources"}
        defaults = times | (runs if fields.get("nodes") else waits)
        defaults |= {"partition": "batch", "time_limit": number(60), "priority": number(100)}
        fields = {name: number(value) if isinstance(value, int) else value for name, value in fields.items()}
        records.append({"job_id": job_id, **defaults, **fields})
    squeue = write_json(folder, "q", common | {"jobs": records})
    return squeue, write_json(folder, "n", common | {"nodes": [node | fields for fields in nodes]})


def job_on(nodes: str, cpus: int, gpus: int = 0, **more: Any) -> dict[str, Any]:
    """A running job; it waits where `nodes` is empty."""
    gres = f",gres/gpu={gpus}" if gpus else ""
    held = f"cpu={cpus},node=1{gres}"
    fields = {"nodes": nodes, "cpus": cpus, "node_count": 1, "tres_req_str": held}
    return fields | ({"tres_alloc_str": held} if nodes else {}) | more

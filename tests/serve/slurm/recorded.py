"""The files here, as they are and changed, and what is made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rlsched.serve.slurm.answers import read_answer
from rlsched.serve.slurm.asked import Asked
from rlsched.serve.slurm.mapping import Mapped, map_cluster

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

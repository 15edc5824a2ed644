"""Unset and infinite numbers: the two largest of 16, 32 and 64 bits, by the width of their field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlsched.integrations.slurm.advice_settings import AdviceSettings

from .samples import CPUS, job, job_on, sample, small_cluster, view_of, waiting, write_json

NODES = [{"name": "n1", "gres": "gpu:a100:4"}, {"name": "n2", "gres": "gpu:a100:4"}]
WIDE = [2**32 - 2, 2**32 - 1, 2**64 - 2, 2**64 - 1, -1, -2]


@pytest.mark.parametrize("none", [2**16 - 2, 2**16 - 1, *WIDE])
def test_sockets_that_are_not_set(tmp_path: Path, none: int) -> None:
    pending: dict[str, Any] = job_on("", 8, tres_per_socket="gpu:1", sockets_per_node=none)
    view = view_of(*small_cluster(tmp_path, NODES, [pending]), AdviceSettings(("cpu", "gpu")))
    assert waiting(view)[1][0] == [8, 1]


@pytest.mark.parametrize("none", WIDE)
def test_numbers_that_are_not_set(tmp_path: Path, none: int) -> None:
    content = sample("squeue")
    job(content, 302).update(node_count=none, tasks=none, array_task_id=none, het_job_id=none)
    view = view_of(write_json(tmp_path, "q", content), settings=AdviceSettings(("nodes",)))
    assert waiting(view)[302][0] == [1]


def test_tasks_may_be_as_many_as_the_largest_number_of_16_bits(tmp_path: Path) -> None:
    pending: dict[str, Any] = job_on("", 8, tres_per_task="gpu:1", tasks=2**16 - 2)
    view = view_of(*small_cluster(tmp_path, NODES, [pending]), AdviceSettings(("cpu", "gpu")))
    assert waiting(view)[1][0] == [8, 2**16 - 2]


@pytest.mark.parametrize("number", [2**32 - 1, 2**64 - 1, -1])
@pytest.mark.parametrize("plain", [True, False])
def test_limits_that_are_infinite(tmp_path: Path, number: int, plain: bool) -> None:
    content = sample("squeue")
    job(content, 302)["time_limit"] = number if plain else {"set": True, "infinite": False, "number": number}
    view = view_of(write_json(tmp_path, "q", content), settings=CPUS)
    assert view.rows[302].job.unlimited


@pytest.mark.parametrize("none", [2**16 - 2, 2**32 - 2, None])
def test_effective_cpus_that_are_not_set(tmp_path: Path, none: int | None) -> None:
    view = view_of(*small_cluster(tmp_path, [{"name": "n1", "effective_cpus": none}], [job_on("", 8)]))
    assert view.request.units == [16]

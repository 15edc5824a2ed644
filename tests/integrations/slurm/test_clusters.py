"""Answers of several clusters are not counted together."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlsched.errors import BadInputError

from .recorded import cluster, job, mapped, on, recorded, written


def test_answers_of_two_clusters_are_refused(tmp_path: Path) -> None:
    content = recorded("sinfo")
    content["meta"]["slurm"]["cluster"] = "other"
    with pytest.raises(BadInputError, match=r"q.*n\.json: clusters 'hpc' and 'other' .*--local"):
        mapped(sinfo=written(tmp_path, "n", content))


def test_jobs_of_two_clusters_are_refused(tmp_path: Path) -> None:
    content = recorded("squeue")
    job(content, 301)["cluster"] = "other"
    message = r"q\.json: jobs\[\d+\]\.cluster: value 'other', and that of jobs\[0\] is 'hpc'"
    with pytest.raises(BadInputError, match=message):
        mapped(written(tmp_path, "q", content))


def test_nodes_of_two_clusters_are_refused(tmp_path: Path) -> None:
    nodes = [{"name": "n1", "cluster_name": "hpc"}, {"name": "n2", "cluster_name": "other"}]
    with pytest.raises(BadInputError, match=r"nodes\[1\]\.cluster_name: value 'other'"):
        mapped(*cluster(tmp_path, nodes, [on("", 8)]))


def test_jobs_and_nodes_of_two_clusters_are_refused(tmp_path: Path) -> None:
    nodes = [{"name": "n1", "cluster_name": "hpc"}]
    with pytest.raises(BadInputError, match="clusters 'other' and 'hpc'"):
        mapped(*cluster(tmp_path, nodes, [on("", 8, cluster="other")]))


def test_jobs_of_another_cluster_than_was_asked_from_are_said(tmp_path: Path) -> None:
    # squeue --clusters other prints its jobs, below the name of the cluster where it was run.
    found = mapped(*cluster(tmp_path, [{"name": "n1"}], [on("", 8, cluster="other")]))
    assert found.request.cluster == "other"
    assert any("the jobs are of cluster other, and sinfo's answer names hpc" in note for note in found.notes)


def test_clusters_that_are_not_named_go_together(tmp_path: Path) -> None:
    content = recorded("sinfo")
    del content["meta"]["slurm"]["cluster"]
    assert mapped(sinfo=written(tmp_path, "n", content)).request.cluster == "hpc"

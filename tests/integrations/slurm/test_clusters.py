"""Jobs and nodes of several clusters are not counted together."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlsched.errors import BadInputError

from .samples import job, job_on, sample, small_cluster, view_of, write_json


def test_outputs_of_two_clusters_are_refused(tmp_path: Path) -> None:
    content = sample("sinfo")
    content["meta"]["slurm"]["cluster"] = "other"
    with pytest.raises(BadInputError, match=r"q.*n\.json: clusters 'hpc' and 'other' .*--local"):
        view_of(sinfo=write_json(tmp_path, "n", content))


def test_jobs_of_two_clusters_are_refused(tmp_path: Path) -> None:
    content = sample("squeue")
    job(content, 301)["cluster"] = "other"
    message = r"q\.json: jobs\[\d+\]\.cluster: value 'other', but jobs\[0\] has 'hpc'"
    with pytest.raises(BadInputError, match=message):
        view_of(write_json(tmp_path, "q", content))


def test_nodes_of_two_clusters_are_refused(tmp_path: Path) -> None:
    nodes = [{"name": "n1", "cluster_name": "hpc"}, {"name": "n2", "cluster_name": "other"}]
    with pytest.raises(BadInputError, match=r"nodes\[1\]\.cluster_name: value 'other'"):
        view_of(*small_cluster(tmp_path, nodes, [job_on("", 8)]))


def test_jobs_and_nodes_of_two_clusters_are_refused(tmp_path: Path) -> None:
    nodes = [{"name": "n1", "cluster_name": "hpc"}]
    with pytest.raises(BadInputError, match="clusters 'other' and 'hpc'"):
        view_of(*small_cluster(tmp_path, nodes, [job_on("", 8, cluster="other")]))


def test_jobs_of_another_cluster_than_the_local_one_get_a_note(tmp_path: Path) -> None:
    # squeue --clusters other prints its jobs, below the name of the cluster where it was run.
    view = view_of(*small_cluster(tmp_path, [{"name": "n1"}], [job_on("", 8, cluster="other")]))
    assert view.request.cluster == "other"
    assert any("the jobs are of cluster other, and sinfo's output names hpc" in note for note in view.notes)


def test_clusters_that_are_not_named_go_together(tmp_path: Path) -> None:
    content = sample("sinfo")
    del content["meta"]["slurm"]["cluster"]
    assert view_of(sinfo=write_json(tmp_path, "n", content)).request.cluster == "hpc"

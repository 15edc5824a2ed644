"""A version that cannot be loaded is left out, and the next one is loaded."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlsched.learn.policy import load_policy
from rlsched.serve.artefact import export_policy

from .conftest import HPC, feed_of, untrained
from .service import Service, example


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A policy that is served; a newer one is beside it."""
    scenario = feed_of(*HPC).scenario
    for seed in (1, 2):
        untrained(scenario, seed=seed).save(tmp_path / f"run-{seed}")
    export_policy(tmp_path / "run-1", tmp_path / "policy")
    return tmp_path / "policy"


@pytest.fixture
def service(folder: Path) -> Iterator[Service]:
    service = Service(folder)
    yield service
    service.close()


def version(path: Path) -> str:
    return load_policy(path).fingerprint[:16]


def test_sizes_that_are_wrong_do_not_hold_up_the_next_version(service: Service, folder: Path) -> None:
    served, run = version(folder), folder.with_name("run-2")
    settings = json.loads((folder / "policy.json").read_text())
    del settings["checksum"]
    for changes in ({"num_resources": 1000}, {"network": {"hidden": [3000]}}):
        (folder / "policy.json").write_text(json.dumps(settings | changes))
        (line,) = service.store.reload()
        assert line.startswith(f"default stays {served}: {folder}: is damaged or of another version (")
        assert "in weights.safetensors" in line or "num_resources is 1000" in line
        assert service.store.reload() == []
        assert service.ask("/v1/decisions", example(folder)).json["policy"]["version"] == served
    export_policy(run, folder)
    assert service.store.reload() == [f"default is {version(run)} now, was {served}"]


def test_a_version_whose_weights_are_written_last_is_loaded(service: Service, folder: Path) -> None:
    served, run = version(folder), folder.with_name("run-2")
    shutil.copy(run / "policy.json", folder)
    (line,) = service.store.reload()
    assert line.startswith(f"default stays {served}: ")
    shutil.copy(run / "weights.safetensors", folder)
    assert service.store.reload() == [f"default is {version(run)} now, was {served}"]


def test_versions_come_and_damage_does_not(tmp_path: Path) -> None:
    settled = feed_of(*HPC).scenario
    for seed in (1, 2):
        untrained(settled, seed=seed).save(tmp_path / f"run-{seed}")
    folder = tmp_path / "policy"
    first = export_policy(tmp_path / "run-1", folder).fingerprint[:16]
    service = Service(folder)

    def version() -> str:
        return service.ask("/v1/decisions", example(folder)).json["policy"]["version"]

    assert version() == first
    assert service.store.reload() == []
    second = export_policy(tmp_path / "run-2", folder).fingerprint[:16]
    assert second != first
    assert service.store.reload() == [f"default is {second} now, was {first}"]
    assert version() == second
    weights = (folder / "weights.safetensors").read_bytes()
    (folder / "weights.safetensors").write_bytes(weights[:-1])
    os.utime(folder / "policy.json", ns=(1, 1))
    (line,) = service.store.reload()
    assert line.startswith(f"default stays {second}: ")
    assert service.store.reload() == []
    assert version() == second
    shutil.rmtree(folder)
    assert service.store.reload() == []
    export_policy(tmp_path / "run-1", folder)
    assert len(service.store.reload()) == 1
    assert version() == first
    service.close()

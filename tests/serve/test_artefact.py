"""The exported policy: its files, and exports that fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from rlsched.errors import BadInputError
from rlsched.learn.policy import load_policy
from rlsched.serve.artefact import export_policy

from .conftest import HPC, feed_of, untrained
from .service import Service


def test_weights_that_are_no_numbers_are_not_served(tmp_path: Path) -> None:
    policy = untrained(feed_of(*HPC).scenario)
    with torch.no_grad():
        for weights in policy.net.parameters():
            weights *= torch.nan
    policy.save(tmp_path / "policy")
    with pytest.raises(BadInputError, match="gave scores that are no numbers"):
        Service(tmp_path / "policy")


def test_a_rule_that_the_service_does_not_follow_is_refused(tmp_path: Path) -> None:
    untrained(feed_of("green-10-sla").scenario).save(tmp_path / "policy")
    for refuse in (Service, lambda folder: export_policy(folder, tmp_path / "exported")):
        with pytest.raises(BadInputError, match="expiry_rule='latest_start' is not known to the service"):
            refuse(tmp_path / "policy")
    assert not (tmp_path / "exported").exists()


def test_an_artefact_is_small_and_whole(hpc: Path, tmp_path: Path) -> None:
    assert {path.name for path in hpc.iterdir()} == {
        "README.md",
        "example.json",
        "policy.json",
        "scenario.json",
        "weights.safetensors",
    }
    assert sum(path.stat().st_size for path in hpc.iterdir()) < 1_000_000
    content = json.loads((hpc / "policy.json").read_text())
    assert content["spaces"]["actions"] == {"count": 33, "slots": 32, "wait": 32}
    assert set(content["about"]["versions"]) >= {"rlsched", "torch", "python"}
    again = export_policy(hpc, tmp_path / "again")
    assert again.fingerprint == load_policy(hpc).fingerprint
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(BadInputError, match="holds other files"):
        export_policy(hpc, tmp_path / "mine")


@pytest.mark.parametrize("part", ["settings", "beside"])
def test_nothing_is_lost_where_an_export_fails(
    hpc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    export_policy(hpc, tmp_path / "policy")
    before = (tmp_path / "policy" / "policy.json").read_bytes()

    def full(self: Path, *arguments: Any, **options: Any) -> int:
        raise OSError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text" if part == "settings" else "write_bytes", full)
        with pytest.raises(OSError, match="disk full"):
            export_policy(hpc, tmp_path / "policy")
    assert (tmp_path / "policy" / "policy.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]

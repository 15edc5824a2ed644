"""A service with a gate: policies that are behind are shadows, also versions and traces that come later."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.learn.policy import load_policy
from rlsched.serve.decide import gate as gate_module
from rlsched.serve.decide.gate import RECORD, evaluate_gate
from rlsched.serve.decide.policy_store import load_for_service
from rlsched.serve.settings import Gate, ServeConfig
from tests.gated import EPISODE, JOBS, SETTINGS, export_by_length, write_site

from .conftest import untrained
from .service import Service, example


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_site(tmp_path_factory.mktemp("site") / "site.swf")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a policy that is known to be bad."""
    return export_by_length(tmp_path / "policy", longest=True)


def test_a_policy_that_is_behind_is_the_shadow_of_the_best_heuristic(folder: Path, site: Path) -> None:
    service = Service(folder, gate=str(site))
    content = service.ask("/v1/policy").json
    (policy,) = content["policies"]
    assert (content["mode"], policy["mode"], policy["fallback"]) == ("policy", "shadow", "area:easy")
    result = policy["gate"]
    assert (result["passes"], result["against"], result["episodes"]) == (False, "worse", JOBS // EPISODE)
    assert result["offsets"] == list(range(0, JOBS, EPISODE))
    assert result["line"].startswith("default fails the gate on site.swf: worse than area + conservative in ")
    assert "; no service runs conservative; of the others area + easy is best, 1.4" in result["line"]
    assert result["line"].endswith("; area:easy decides, and the policy is its shadow")
    answer = service.ask("/v1/decisions", example(folder)).json
    assert (answer["decided_by"], answer["because"]) == ("fallback", "shadow")
    assert answer["decisions"] == answer["fallback"]["decisions"]
    assert answer["shadow"]
    service.close()


def test_the_fallback_that_was_named_decides(folder: Path, site: Path) -> None:
    service = Service(folder, gate={"trace": site, "episodes": 5}, fallback="sjf:greedy")
    (policy,) = service.ask("/v1/policy").json["policies"]
    assert (policy["mode"], policy["fallback"], policy["gate"]["episodes"]) == ("shadow", "sjf:greedy", 5)
    assert policy["gate"]["line"].endswith("; sjf:greedy decides, and the policy is its shadow")
    service.close()


def test_later_versions_and_traces_pass_the_gate(tmp_path: Path, folder: Path, site: Path) -> None:
    site_copy = tmp_path / "site.swf"
    shutil.copy(site, site_copy)
    service = Service(folder, gate=site_copy)
    assert service.ask("/v1/decisions", example(folder)).json["decided_by"] == "fallback"
    export_by_length(folder, longest=False)
    version, line = service.store.reload()
    assert version.startswith("default is ")
    assert line.startswith("default passes the gate on site.swf: level with area + conservative ")
    (policy,) = service.ask("/v1/policy").json["policies"]
    assert (policy["mode"], policy["fallback"]) == ("policy", "fcfs:easy")
    answer = service.ask("/v1/decisions", example(folder)).json
    assert answer["decided_by"] == "policy"
    assert service.store.reload() == []

    os.utime(site_copy, ns=(0, 0))  # as another one
    (line,) = service.store.reload()
    assert line.startswith("default passes the gate on site.swf: ")
    site_copy.write_text("; MaxProcs: 4\n")
    (line,) = service.store.reload()
    assert line.startswith("default stays ")
    assert "--gate: " in line
    assert service.store.reload() == []
    site_copy.unlink()
    assert service.store.reload() == []
    assert service.ask("/v1/decisions", example(folder)).json["decided_by"] == "policy"
    service.close()


def test_without_a_gate_nobody_stands_back(folder: Path) -> None:
    service = Service(folder)
    (policy,) = service.ask("/v1/policy").json["policies"]
    assert (policy["mode"], policy["gate"]) == ("policy", None)
    assert not (folder / RECORD).exists()
    service.close()


def test_a_verdict_is_read_from_its_file(folder: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, gate = load_policy(folder), Gate(trace=site)
    result = evaluate_gate(policy, folder, gate)
    assert json.loads((folder / RECORD).read_text())["passes"] is False
    played: list[object] = []
    real = gate_module._session
    monkeypatch.setattr(
        gate_module, "_session", lambda *arguments: played.append(arguments) or real(*arguments)
    )
    assert evaluate_gate(policy, folder, gate) == result
    assert played == []
    second = evaluate_gate(policy, folder, Gate(trace=site, episodes=5))
    assert (len(played), second.figures["episodes"]) == (1, 5)
    (folder / RECORD).write_text("{")
    assert evaluate_gate(policy, folder, gate) == result
    assert len(played) == 2


def test_jobs_of_its_training_are_said(tmp_path: Path, site: Path) -> None:
    trace_of_training = f"workload={{kind: swf, file: {site}, load: 0.5, training_jobs: [0, 40]}}"
    cluster = "cluster.resources.0.units=null"
    folder = export_by_length(
        tmp_path / "own", longest=True, settings=(*SETTINGS, trace_of_training, cluster)
    )
    result = evaluate_gate(load_policy(folder), folder, Gate(trace=site))
    assert result.line.endswith("the policy may have been trained on jobs of 2 of them")


def test_the_length_of_episodes(tmp_path: Path, site: Path) -> None:
    whole = export_by_length(tmp_path / "whole", longest=True, settings=(*SETTINGS, "episode.jobs=1000"))
    policy = load_policy(whole)
    with pytest.raises(BadInputError, match=r"--gate: .*120 jobs .* less than an episode of 1000"):
        evaluate_gate(policy, whole, Gate(trace=site))
    assert evaluate_gate(policy, whole, Gate(trace=site, jobs=10)).figures["episodes"] == JOBS // 10


def test_settings_from_a_file() -> None:
    config = ServeConfig.model_validate({"policies": "runs/policy", "gate": "site.swf"})
    assert config.gate == Gate(trace=Path("site.swf"))
    assert config.rooted().gate == Gate(trace=Path.cwd() / "site.swf")


def test_with_a_horizon_the_trace_is_played_under_the_power_of_the_policy(tmp_path: Path, site: Path) -> None:
    """By value, which is shown first there, and held against orders that such a service runs."""
    green = scenario.load("green-ctc", ["episode.max_ticks=4", "cluster.resources.0.units=4"])
    untrained(green).save(tmp_path / "green")
    policy = load_policy(tmp_path / "green")
    result = evaluate_gate(policy, tmp_path / "green", Gate(trace=site, episodes=5))
    assert (result.figures["metric"], result.figures["episodes"]) == ("job_value_ratio", 5)
    assert result.heuristic.partition(":")[2] in {"now", "horizon"}
    config = ServeConfig(policies={"p": tmp_path / "green"}, gate=Gate(trace=site, episodes=5))
    assert load_for_service("p", tmp_path / "green", config).shadow is not result.passes

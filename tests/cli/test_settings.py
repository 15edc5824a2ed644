"""`rlsched settings`: every key is there, with the default that it has."""

from __future__ import annotations

import json
from operator import attrgetter
from pathlib import Path

import pytest

from rlsched.cli.main import main
from rlsched.learn.config.training import TrainConfig, make_config
from rlsched.scenario import Scenario, load
from rlsched.serve.settings import ServeConfig
from rlsched.settings import as_written, validate


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    capsys.readouterr()
    assert main(["settings", *words, "--json", "-"]) == 0
    rows: list[dict[str, object]] = json.loads(capsys.readouterr().out)["settings"]
    return rows


def test_every_key_of_the_shipped_scenarios_and_of_the_training_is_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = {str(row["key"]) for row in listed(capsys)}

    def keys(values: object, before: str = "") -> set[str]:
        if isinstance(values, dict) and values and before not in {"objective.reward", "objective.costs"}:
            return {
                key for name, value in values.items() for key in keys(value, f"{before}.{name}".lstrip("."))
            }
        if isinstance(values, list) and values and isinstance(values[0], dict):
            return keys(values[0], f"{before}.0")
        return {before}

    for name in ("green-10", "green-hpc2n", "lublin-256", "deeprm"):
        assert keys(load(name).model_dump(mode="json")) - known == {"schema_version"}
    assert keys(TrainConfig().model_dump(mode="json")) - known == {"schema_version"}


def test_those_of_the_service_are_listed_and_taken(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {str(row["key"]): row for row in listed(capsys) if row["part"] == "service"}
    assert {"mode", "reload_s", "limits.body_bytes", "scaling.replicas", "gate.trace"} <= set(rows)
    arguments = [f"{key}={row['default']}" for key, row in rows.items() if row["default"] not in {"", "null"}]
    usual = ServeConfig(policies={"default": Path("a")})
    without_gate = [setting for setting in arguments if "gate." not in setting]
    assert validate(ServeConfig, {"policies": "a"}, "test", without_gate) == usual
    (row,) = listed(capsys, "scaling.replicas")
    assert row["part"] == "service"


def test_defaults_are_what_is_taken_where_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    config = TrainConfig()
    for row in listed(capsys, "ppo"):
        name = str(row["key"]).removeprefix("ppo.")
        assert row["default"] == as_written(attrgetter(name)(config.ppo))
        assert row["part"] == "training"
    (row,) = listed(capsys, "network.kind")
    assert (row["default"], row["choices"]) == ("job_scorer", ["job_scorer", "mlp", "cnn", "priority"])
    assert (
        make_config({}, "test", [f"network.hidden={listed(capsys, 'network.hidden')[0]['default']}"])
        == config
    )
    kinds = next(row["choices"] for row in listed(capsys, "workload") if row["key"] == "workload.kind")
    assert kinds == ["lublin", "swf", "poisson", "mao", "mixture"]
    assert {row["key"] for row in listed(capsys, "power.battery")} > {
        "power.battery",
        "power.battery.initial",
    }
    assert "power" in Scenario.model_fields


def test_it_is_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "search"]) == 0
    out = capsys.readouterr().out
    assert "search.start" in out
    assert "ppo.clip" not in out


def test_an_unknown_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "netwrok"]) == 2
    assert "KEY: no setting starts with 'netwrok'; use one of algo," in " ".join(
        capsys.readouterr().err.split()
    )

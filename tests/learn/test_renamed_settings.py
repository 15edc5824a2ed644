"""Settings by the names of version 0.1.0: files, run folders, sweeps and --set still accept them."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlsched import scenario
from rlsched.learn.config.training import make_config
from rlsched.learn.folder import RunFolder
from rlsched.settings import RenamedSettingWarning
from rlsched.settings_files import was_edited, write_settings
from rlsched.tune.sweep import Sweep

RENAMED = {
    "dqn.target_share": "dqn.tau",
    "cql.target_share": "cql.tau",
    "rare.target_share": "rare.tau",
    "cql.logit_value": "cql.logit_scale",
    "rare.logit_value": "rare.logit_scale",
    "cql.conservative": "cql.alpha",
    "rare.conservative": "rare.cql_alpha",
    "rare.conservative_temperature": "rare.cql_temperature",
    "launchpad.heat": "launchpad.temperature",
}
"""Former path -> present path, of numbers."""


def value_for(path: str) -> float:
    """A value that is not the default."""
    return 2.5 if path == "launchpad.temperature" else 0.125


@pytest.mark.parametrize(("former", "present"), RENAMED.items())
def test_former_names_in_files_and_assignments(former: str, present: str) -> None:
    section, _, name = former.partition(".")
    value = value_for(present)
    with pytest.warns(RenamedSettingWarning, match=f"'{name}' is now called"):
        config = make_config({section: {name: value}}, "train.yaml")
    assert attrgetter(present)(config) == value
    with pytest.warns(RenamedSettingWarning):
        config = make_config({}, "train.yaml", [f"{former}={value}"])
    assert attrgetter(present)(config) == value


@pytest.mark.filterwarnings("ignore::rlsched.settings.RenamedSettingWarning")
def test_a_run_folder_of_version_0_1_0_is_read(tmp_path: Path) -> None:
    simulated = scenario.load("lublin-256")
    config = make_config({"algo": "dqn"}, "test", ["dqn.tau=0.125"])
    values: dict[str, Any] = config.model_dump(mode="json") | {"scenario": simulated.model_dump(mode="json")}
    for former, present in RENAMED.items():
        section, _, name = former.partition(".")
        if section in values:
            values[section][name] = values[section].pop(present.partition(".")[2])
    values["sampling"]["replicas"] = None
    folder = RunFolder(tmp_path)
    write_settings(tmp_path / "train.yaml", yaml.safe_dump(values, sort_keys=False, encoding="utf-8"))
    assert was_edited(tmp_path / "train.yaml") is False
    assert folder.read() == (simulated, config.resolve(simulated))


@pytest.mark.filterwarnings("ignore::rlsched.settings.RenamedSettingWarning")
def test_a_sweep_cannot_set_and_search_one_setting_under_two_names() -> None:
    values: dict[str, Any] = {
        "base": {"scenario": "lublin-256", "algo": "dqn"},
        "space": {"dqn.tau": {"values": [0.1, 0.2]}},
        "search": {"kind": "grid"},
    }
    Sweep.model_validate(values)
    with pytest.raises(ValueError, match="is set and searched"):
        Sweep.model_validate(values | {"set": ["dqn.target_share=0.1"]})


def test_the_former_name_of_a_setting_of_maos_model() -> None:
    with pytest.warns(RenamedSettingWarning, match="'other' is now called 'minor'"):
        read = scenario.load("deeprm", ["workload.other=[0.2, 0.3]"])
    assert read.workload.minor == (0.2, 0.3)

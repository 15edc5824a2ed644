"""Scenarios with power, and paths that are named from the root."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlsched import scenario
from tests.test_scenario import GREEN, parsed, refused


@pytest.mark.parametrize(
    ("power", "line"),
    [
        (
            "{file: mine.csv}",
            "power.file: value 'mine.csv' has no effect where kind is constant; set power.kind",
        ),
        ("{wind_kw: 3}", "power.wind_kw: value 3 has no effect where kind is constant"),
        (
            "{time_zone: Asia/Tokyo}",
            "power.time_zone: value 'Asia/Tokyo' has no effect where kind is constant",
        ),
        (
            "{kind: series, time_zone: Mars/Base}",
            "power.time_zone: value 'Mars/Base' is unknown; name one as Euro",
        ),
        ("{solar_kw: 0}", "power.solar_kw: value 0 has no effect where kind is constant"),
        ("{columns: {wind: W}}", "power.columns: has no effect where kind is constant"),
        ("{probability: 0.5}", "power.probability: value 0.5 has no effect where kind is constant"),
        ("{block: 3}", "power.block: value 3 has no effect where kind is constant"),
        ("{kind: synthetic, file: a}", "power.file: value 'a' has no effect where kind is synthetic"),
        (
            "{kind: series, level: 0.9}",
            "power.level: value 0.9 has no effect where kind is series; set power.",
        ),
        (
            "{kind: series, carbon_g_per_kwh: 9}",
            "power.carbon_g_per_kwh: value 9 has no effect where the file",
        ),
    ],
)
def test_power_settings_that_would_be_ignored_are_refused(power: str, line: str) -> None:
    """Users expect an effect of what they set, such as a file that would not be read."""
    assert refused(*GREEN, f"power={power}").startswith(f"--set: {line}")


@pytest.mark.parametrize(
    "power",
    [
        "{level: 0.9, carbon_g_per_kwh: 9}",
        "{kind: synthetic, level: 0.9, probability: 0.9, block: 2, carbon_g_per_kwh: 9}",
        "{kind: series, file: a, wind_kw: 1, solar_kw: 0, columns: {wind: W}}",
        "{kind: series, columns: {carbon: null}, carbon_g_per_kwh: 9}",
        "{probability: 1.0, block: 6, file: null}",  # as they stand by themselves
    ],
)
def test_power_settings_that_count_are_taken(power: str) -> None:
    result = parsed(*GREEN, f"power={power}")
    assert scenario.parse(result.model_dump(mode="json"), "again") == result


@pytest.mark.parametrize(
    "power", ["{level: 0.9}", "{kind: synthetic}", "{kind: series}", "{forecast_error: 0.1}"]
)
@pytest.mark.parametrize("end", ["all_finished", "no_new_job"])
def test_power_that_may_fail_ends_by_the_clock(power: str, end: str) -> None:
    line = refused("decision.horizon=9", "decision.action_rule=fit", f"power={power}", f"episode.end={end}")
    assert line.startswith(f"--set: episode.end: value '{end}' does not go with power that may fail")
    assert parsed(*GREEN, f"power={power}").episode.end == "max_ticks"
    always = parsed("decision.horizon=9", "decision.action_rule=fit", "power={}", f"episode.end={end}")
    assert always.episode.end == end


def test_a_trace_is_named_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a run resumes in any folder, and notices another file than that it was trained on."""
    monkeypatch.chdir(tmp_path)
    result = scenario.rooted(scenario.load("hpc-trace", ["workload.file=jobs.swf"])).workload
    assert isinstance(result, scenario.SwfWorkload)
    assert result.file == tmp_path / "jobs.swf"


def test_a_power_series_is_named_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fed = scenario.load("green-10", ["power={kind: series, file: wind.csv, wind_kw: 4}"])
    assert scenario.files(scenario.rooted(fed)) == {"power series": tmp_path / "wind.csv"}


def test_a_model_stays_as_it_is() -> None:
    model = scenario.load("green-10")
    assert scenario.rooted(model) == model

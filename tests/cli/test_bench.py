"""`rlsched bench core`: names, cases and the shape of its JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.core_speed import compared
from rlsched.cli import bench_core
from rlsched.scenario import load
from rlsched.sim.layout import Layout

from .conftest import Run


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_core, "JOBS", 60)
    monkeypatch.setattr(bench_core, "SEQUENCES", 2)
    monkeypatch.setattr(bench_core, "CROWDED_STEPS", 50)
    monkeypatch.setattr(bench_core, "CROWDED", (("163840 procs", 2_000, 50), ("100000 queued", 256, 500)))


def test_figures(rlsched: Run, trace: Path) -> None:
    ran = rlsched("bench", "core", "--seconds", "0.01", "--trace", trace, "--json", "-")
    assert ran.code == 0
    assert ran.json["schema"] == 1
    assert ran.json["machine"].keys() >= {"cpu", "cores", "python", "numba", "numpy"}
    figures = {(figure["name"], figure["case"]): figure for figure in ran.json["figures"]}
    assert set(figures) == {
        ("decisions_per_s", "lublin-256 smdp w128"),
        ("bytes_per_environment", "lublin-256 smdp w128"),
        ("decisions_per_s", "green-10 jobs image w5"),
        ("decisions_per_s", "green-10 jobs profile w5"),
        ("decisions_per_s", "green-1200 jobs image w5"),
        ("decisions_per_s", "green-1200 jobs profile w5"),
        ("decisions_per_s", "256 procs 1000 queued"),
        ("decisions_per_s", "163840 procs"),
        ("decisions_per_s", "100000 queued"),
        ("jobs_per_s", "small fcfs none"),
        ("jobs_per_s", "small fcfs easy"),
        ("jobs_per_s", "small sjf greedy"),
        ("jobs_per_s", "small area easy"),
    }
    for figure in figures.values():
        assert figure["value"] > 0
        assert figure["unit"] == ("B" if figure["name"].startswith("bytes") else "1/s")
        assert (figure["against"] is None) == (figure["ratio"] is None)
    assert {figure["against"] for figure in figures.values()} == {None, bench_core.SMALL}


@pytest.mark.parametrize("name", ["lublin-256", "green-10"])
def test_decisions_relative_to_the_slow_twin(name: str) -> None:
    scenario = load(name)
    measured = bench_core.decisions(scenario, 0.01, 0)
    (figure,) = compared([measured], scenario, load("lublin-256"), 0.01, 0)
    assert (figure.value, figure.against) == (measured.value, "slow twin")
    assert figure.ratio is not None
    assert figure.ratio > 1


def test_replays_relative_to_the_slow_twin() -> None:
    scenario = load("lublin-256")
    episodes, units = bench_core.sequences(scenario, 0)
    replayed = bench_core.jobs_replayed("lublin", episodes, units, "fcfs", "none", 0.01)
    memory = bench_core.memory(scenario, 0)
    figure, unchanged = compared([replayed, memory], scenario, scenario, 0.01, 0)
    assert (figure.case, figure.against) == ("lublin fcfs none", "slow twin")
    assert figure.ratio is not None
    assert figure.ratio > 1
    assert unchanged == memory


def test_memory_is_what_environments_hold() -> None:
    """Twice the window: features of as many jobs more, a byte each of mask, two words at most beside."""
    figures = {}
    for window in (128, 256):
        observed = load("lublin-256", [f"decision.window={window}"])
        figures[window] = bench_core.memory(observed, 0)
    features = len(Layout.of(observed.observation, observed.decision, 1).features("jobs"))
    assert 0 <= (figures[256].value - figures[128].value) / 128 - (4 * features + 1) <= 16
    assert (figures[128].unit, figures[128].case) == ("B", "lublin-256 smdp w128")

"""Bad input to scenarios with a horizon and power: one line that says where, what and what to do instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.power.files import five_hours, power_file

from .conftest import Run
from .test_bad_input import refused

FILE = "power.csv"
SERIES = ("--set", "power.kind=series", "--set", f"power.file={FILE}")
HPC = "lublin-256"


def in_folder(folder: Path, rlsched: Run, scenario: str, *options: str) -> str:
    """The line that a simulation in this folder is refused with; nothing is written."""
    before = sorted(folder.iterdir())
    written = ("--json", "f.json", "--report", "report", "--render", "p.png")
    line = refused(rlsched, "simulate", "--scenario", scenario, *options, *written)
    assert sorted(folder.iterdir()) == before
    assert "Value error" not in line
    return line


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def changed(row: int, old: str, new: str) -> list[str]:
    """Five good hours with one row written otherwise; the header is row 1."""
    rows = five_hours()
    assert old in rows[row - 1]
    rows[row - 1] = rows[row - 1].replace(old, new)
    return rows


HOURS = five_hours()
BAD_FILES = {
    "a missing hour": (
        [*HOURS[:3], *HOURS[4:]],
        [
            "row 4, column 'timestamp': '2022-01-01T03:00:00Z' comes 2 h after row 3",
            "add the missing rows",
        ],
    ),
    "a repeated hour": (
        [*HOURS[:4], *HOURS[3:]],
        ["row 5, column 'timestamp': '2022-01-01T02:00:00Z' is the time of row 4 again", "keep one row"],
    ),
    "a negative value": (
        changed(3, ",2,", ",-2,"),
        ["row 3, column 'WND': '-2' is negative", "give a number from 0 on"],
    ),
    "a word": (changed(4, ",10,", ",ten,"), ["row 4, column 'SUN': 'ten' is not a number", "give a number"]),
    "a wrong column": (
        changed(1, "WND", "wind"),
        ["has no column 'WND', but timestamp, wind, SUN, avg_CI", "set power.columns.wind to one of these"],
    ),
    "no carbon intensity": (
        [row.rpartition(",")[0] for row in HOURS],
        ["has no column 'avg_CI'", "set power.columns.carbon to one of these"],
    ),
    "a cell too many": (
        changed(2, ",1,", ",1,1,"),
        ["row 2 has 5 cells where the header has 4", "correct the row"],
    ),
    "a header alone": (HOURS[:1], ["has 0 rows below its header", "give a CSV with"]),
    "no sun at all": (
        [HOURS[0], *(",".join([*row.split(",")[:2], "0", "9"]) for row in HOURS[1:])],
        ["column 'SUN' is zero throughout", "set power.solar_kw=0"],
    ),
}


@pytest.mark.parametrize("subject", BAD_FILES)
def test_power_files(rlsched: Run, tmp_path: Path, subject: str) -> None:
    lines, parts = BAD_FILES[subject]
    power_file(tmp_path, *lines, name=FILE)
    line = in_folder(tmp_path, rlsched, "green-10", *SERIES)
    assert line.startswith(f"{FILE}: ")
    for part in parts:
        assert part in line


def test_a_power_file_that_is_not_there(rlsched: Run, tmp_path: Path) -> None:
    line = in_folder(tmp_path, rlsched, "green-10", *SERIES)
    assert line.startswith(f"{FILE}: no such file; give a CSV with a column of times and columns of wind")


BATTERY = "power.battery={capacity_kwh: 10, charge_kw: 20, discharge_kw: 20}"


@pytest.mark.parametrize(
    ("scenario", "settings", "parts"),
    [
        # a battery larger than physics
        (
            "green-10",
            [BATTERY, "power.battery.charge_kw=101"],
            ["power.battery.charge_kw: value 101 would fill 10 kWh in less than 6 minutes", "at most 100"],
        ),
        (
            "green-10",
            [BATTERY, "power.battery.discharge_kw=500"],
            ["power.battery.discharge_kw: value 500 would empty 10 kWh in less", "or a larger capacity_kwh"],
        ),
        (
            "green-10",
            [BATTERY, "power.battery.efficiency=1.01"],
            ["power.battery.efficiency: value 1.01; Input should be less than or equal to 1"],
        ),
        (
            "green-10",
            [BATTERY, "power.battery.capacity_kwh=-1"],
            ["power.battery.capacity_kwh: value -1; Input should be greater than 0"],
        ),
        ("green-10", [BATTERY, "power.battery.initial=1.5"], ["power.battery.initial: value 1.5; "]),
        ("green-10", ["power.battery.capacity_kwh=10"], ["power.battery.charge_kw: is missing"]),
        # a horizon shorter than the longest job
        (
            "green-10",
            ["decision.horizon=29"],
            [
                "decision.horizon: value 29 is shorter than the longest job, 30 ticks (workload.long)",
                "at least 30",
            ],
        ),
        (
            "deeprm",
            ["workload.short=[1, 21]"],
            ["decision.horizon: value 20 is shorter than the longest job, 21 ticks (workload.short)"],
        ),
        # terms that need a horizon or power
        (
            HPC,
            ["objective.reward.finished_value=1"],
            ["objective.reward.finished_value: is counted only with a horizon", "set decision.horizon=N"],
        ),
        (
            HPC,
            ["objective.costs={delayed_jobs: null}"],
            ["objective.costs.delayed_jobs: is counted only with a horizon", "set decision.horizon=N"],
        ),
        (HPC, ["objective=value_under_delay"], ["objective.reward.finished_value: is counted only with"]),
        (
            "green-10",
            ["power=null", "objective.costs.carbon=9"],
            ["objective.costs.carbon: is counted only with power", "add power"],
        ),
        ("deeprm", ["objective.reward.energy=1"], ["objective.reward.energy: is counted only with power"]),
        # what has no effect without a horizon
        (HPC, ["power.kind=constant"], ["power: has no effect without a horizon", "set decision.horizon=N"]),
        (
            HPC,
            ["decision.placement=horizon"],
            ["decision.placement: value 'horizon' has no effect without a horizon", "set decision.horizon=N"],
        ),
        (HPC, ["decision.suspend=true"], ["decision.suspend: value true has no effect without a horizon"]),
        (HPC, ["decision.wait_pool=9"], ["decision.wait_pool: value 9 has no effect without a horizon"]),
        (HPC, ["decision.admission=qos"], ["decision.admission: value 'qos' has no effect without"]),
        (HPC, ["decision.expiry=0"], ["decision.expiry: value 0 has no effect without a horizon"]),
        (
            "green-10",
            ["decision.expiry_rule=latest_start"],
            [
                "decision.expiry_rule: value 'latest_start' has no effect without decision.expiry",
                "set decision.expiry=0",
            ],
        ),
        (
            "green-10-sla",
            ["decision.suspend=true"],
            ["decision.suspend: value true does not go with expiry_rule='latest_start'"],
        ),
        (HPC, ["observation.blocks=[profile]"], ["observation.blocks: 'profile' has no effect without"]),
        (
            HPC,
            ["decision.horizon=48", "decision.action_rule=hold"],
            [
                "decision.action_rule: value 'hold' does not go with a horizon",
                "set decision.action_rule=fit",
            ],
        ),
        ("green-10", ["observation.classic=true"], ["observation.classic: value true", "add image to"]),
        # power
        (
            "green-10",
            ["power.level=1.1"],
            ["power.level: value 1.1; Input should be less than or equal to 1"],
        ),
        (
            "green-10",
            ["power.kind=wind"],
            ["power.kind: value 'wind'", "'constant', 'synthetic' or 'series'"],
        ),
        ("green-10", ["power.probability=0.9"], ["power.probability: value 0.9 has no effect", "synthetic"]),
        (
            "green-10",
            ["power.file=p.csv"],
            ["power.file: value 'p.csv' has no effect", "set power.kind=series"],
        ),
        (
            "green-10",
            ["power.forecast_error=0.1", "episode={jobs: 9}"],
            [
                "episode.end: value 'all_finished' does not go with power that may fail",
                "set episode.end=max_ticks",
            ],
        ),
        # watts and units
        (
            "green-10",
            ["cluster.resources.1.idle_w=201"],
            ["cluster.resources.1.idle_w: value 201 is more than full_w 200", "set at most that"],
        ),
    ],
)
def test_settings(rlsched: Run, tmp_path: Path, scenario: str, settings: list[str], parts: list[str]) -> None:
    options = [part for setting in settings for part in ("--set", setting)]
    line = in_folder(tmp_path, rlsched, scenario, *options)
    assert line.startswith(f"--set: {parts[0]}")
    for part in parts:
        assert part in line


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (
            ["--set", "power.utilization=0"],
            ["power.utilization: value 0: under load the cluster draws 0 W", "set it above 0"],
        ),
        (["--set", "cluster.resources.0.units=null"], ["how many cpu", "cluster.resources.0.units=N"]),
        (["--set", "cluster.resources.1.units=null"], ["how much gpu", "cluster.resources.1.units=N"]),
        (
            ["--set", "workload={kind: lublin}", "--set", "episode.jobs=9"],
            ["cluster.resources: 2 types", "keep one"],
        ),
    ],
)
def test_clusters(rlsched: Run, tmp_path: Path, options: list[str], parts: list[str]) -> None:
    idle = [part for k in (0, 1) for part in ("--set", f"cluster.resources.{k}.idle_w=0")]
    line = in_folder(tmp_path, rlsched, "green-10", *idle, *options)
    for part in parts:
        assert part in line


@pytest.mark.parametrize(
    ("scenario", "options", "parts"),
    [
        ("green-10", ["--backfill", "easy"], ["--backfill: ", "'easy'", "now, horizon, none"]),
        ("green-10", ["-p", "fcfs:greedy"], ["--policy: ", "'greedy'", "now, horizon, none"]),
        (HPC, ["--backfill", "now"], ["--backfill: ", "'now'", "none, greedy, easy, conservative"]),
        (HPC, ["-p", "sjf:horizon"], ["--policy: ", "'horizon'", "none, greedy, easy, conservative"]),
        ("green-10", ["--window", "3"], ["--window: value 3 is not supported", "--set decision.window=3"]),
        ("green-10", ["--offsets", "3"], ["--offsets: are rows of a trace"]),
    ],
)
def test_rules_of_the_other_kind(
    rlsched: Run, tmp_path: Path, scenario: str, options: list[str], parts: list[str]
) -> None:
    line = in_folder(tmp_path, rlsched, scenario, *options)
    assert line.startswith(parts[0])
    for part in parts:
        assert part in line


def test_a_scenario_of_a_trace_says_how_to_name_one(rlsched: Run, tmp_path: Path) -> None:
    line = in_folder(tmp_path, rlsched, "green-hpc2n")
    assert line.startswith("scenario green-hpc2n: workload.file 'HPC2N-2002-2.2-cln.swf.gz': no such file")
    assert "--trace FILE" in line


def test_a_trace_with_a_scenario_that_draws_its_jobs(rlsched: Run, tmp_path: Path, trace: Path) -> None:
    line = in_folder(tmp_path, rlsched, "green-10", "--trace", str(trace))
    assert line.startswith("--scenario, --trace: both are given, but scenario 'green-10' draws its jobs")
    assert line.endswith("remove one, or name a scenario with a trace: green-ctc, green-hpc2n, hpc-trace")


def test_a_protocol_of_another_simulator(rlsched: Run, tmp_path: Path, trace: Path) -> None:
    options = ("--trace", str(trace), "--protocol", "rlscheduler")
    line = in_folder(tmp_path, rlsched, "green-hpc2n", *options)
    assert line.startswith("--protocol: rlscheduler does not support power, plans and pools")


def test_a_trace_with_no_job_within_the_horizon(rlsched: Run, tmp_path: Path) -> None:
    jobs = [f"{k} 0 -1 9 1 -1 -1 1 {49 * 3600} -1 1 1 1 -1 1 -1 -1 -1" for k in range(3)]
    Path("long.swf").write_text("\n".join(["; MaxProcs: 4", *jobs, ""]))
    options = ("--trace", "long.swf", "--set", "workload.oversized=reject")
    line = in_folder(tmp_path, rlsched, "green-hpc2n", *options)
    assert line.startswith("long.swf: no job requests at most 48 ticks, the decision.horizon")
    assert "set workload.oversized=scale" in line

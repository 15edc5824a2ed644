"""Scenario: what loads, what is refused and with which line, and what overrides do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.scenario import OBJECTIVE_PRESETS, Scenario

MODEL: dict[str, Any] = {"workload": {"kind": "lublin"}}
TRACE: dict[str, Any] = {"workload": {"kind": "swf", "file": "a.swf"}}


def parsed(*overrides: str, values: dict[str, Any] = MODEL) -> Scenario:
    return scenario.parse(values, "mine", overrides)


def refused(*overrides: str, values: dict[str, Any] = MODEL) -> str:
    with pytest.raises(BadInputError) as caught:
        parsed(*overrides, values=values)
    line = str(caught.value)
    assert "\n" not in line
    return line


@pytest.mark.parametrize("name", scenario.names())
def test_every_shipped_scenario_loads_and_reads_as_itself(name: str) -> None:
    shipped = scenario.load(name)
    assert shipped.name == name
    assert shipped.description
    plain = shipped.model_dump(mode="json")
    for again in (yaml.safe_load(yaml.safe_dump(plain)), json.loads(json.dumps(plain))):
        assert scenario.parse(again, "again") == shipped


def test_there_are_models_and_traces_among_them() -> None:
    kinds = {scenario.load(name).workload.kind for name in scenario.names()}
    assert kinds == {"lublin", "swf", "poisson", "mao", "mixture"}


def test_names_are_listed_by_size() -> None:
    sizes = [name for name in scenario.names() if name.startswith("green-") and name[6:].isdigit()]
    assert sizes == [f"green-{units}" for units in (10, 20, 50, 100, 300, 1200)]


@pytest.mark.parametrize("units", [20, 50, 100, 300, 1200])
def test_green_scenarios_differ_in_their_size_alone(units: int) -> None:
    def without_size(name: str) -> tuple[list[int | None], dict[str, Any]]:
        values = scenario.load(name).model_dump(mode="json", exclude={"name", "description"})
        return [resource.pop("units") for resource in values["cluster"]["resources"]], values

    smallest, displayed = without_size("green-10")
    assert smallest == [10, 10]
    assert without_size(f"green-{units}") == ([units, units], displayed)


@pytest.mark.parametrize("preset", OBJECTIVE_PRESETS)
def test_presets_are_objectives(preset: str) -> None:
    values = scenario.load("green-10").model_dump(mode="json")
    objective = parsed(values={**values, "objective": preset}).objective
    assert objective.reward == OBJECTIVE_PRESETS[preset]["reward"]
    assert set(objective.costs) == set(OBJECTIVE_PRESETS[preset].get("costs", ()))
    # What a preset does not name stays, whichever is set first.
    reported = parsed(
        "objective.gamma=0.5", f"objective={preset}", "objective.scope=window", values=values
    ).objective
    assert reported == objective.model_copy(update={"gamma": 0.5, "scope": "window"})
    assert parsed(f"objective={preset}", values=values).objective.gamma == values["objective"]["gamma"] != 1.0


def test_a_preset_forgets_what_another_reward_was_divided_by() -> None:
    shipped = scenario.load("lublin-256").objective
    assert shipped.baseline
    assert scenario.load("lublin-256", ["objective=makespan"]).objective.baseline == ()


@pytest.mark.parametrize("first", ["3", "zzz"])
def test_a_preset_after_nonsense_stands_alone(first: str) -> None:
    reported = parsed(f"objective={first}", "objective=utilization").objective
    assert reported.reward == {"utilization": 1.0}


def test_a_scenario_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        parsed().cluster.tick_s = 2  # type: ignore[misc]


RANGES = "Input should be greater than"


@pytest.mark.parametrize(
    ("override", "line"),
    [
        # unknown keys: what stands there instead
        (
            "clustr=1",
            "clustr: unknown key; did you mean 'cluster'? use one of cluster, decision, description",
        ),
        (
            "cluster.tick=1",
            "cluster.tick: unknown key; did you mean 'tick_s'? use one of kill_at_requested, resources",
        ),
        (
            "cluster.resources.0.unit=1",
            "cluster.resources.0.unit: unknown key; did you mean 'units'? use one of full_w, idle_w",
        ),
        ("workload.file=1", "workload.file: unknown key; use one of daily_cycle, estimates, jobs, kind"),
        (
            "decision.widow=1",
            "decision.widow: unknown key; did you mean 'window'? use one of action_rule, admission, expiry",
        ),
        ("a..b=1", "a: unknown key"),
        # values: what they are, and what is allowed
        ("cluster.tick_s=0", f"cluster.tick_s: value 0; {RANGES} or equal to 1"),
        ("cluster.tick_s=x", "cluster.tick_s: value 'x'; Input should be a valid integer"),
        ("cluster.tick_s.a=1", "cluster.tick_s: is a mapping; Input should be a valid integer"),
        ("cluster.resources=[]", "cluster.resources: value []; Tuple should have at least 1 item"),
        ("cluster.resources.0.units=0", f"cluster.resources.0.units: value 0; {RANGES}"),
        ("workload.kind=x", "workload.kind: value 'x'; use one of 'lublin', 'swf', 'poisson', 'mao'"),
        ("workload.load=0", f"workload.load: value 0; {RANGES} 0"),
        ("decision.window=1.5", "decision.window: value 1.5; Input should be a valid integer"),
        ("decision.window=0", f"decision.window: value 0; {RANGES}"),
        (
            "decision.action_rule=x",
            "decision.action_rule: value 'x'; Input should be 'commit', 'fit' or 'hold'",
        ),
        ("decision.time_rule=x", "decision.time_rule: value 'x'; Input should be 'smdp', 'sparse' or 'tick'"),
        ("decision=null", "decision: value null; "),
        ("observation.blocks=[jobs, imag]", "observation.blocks.1: value 'imag'; Input should be 'jobs',"),
        (
            "observation.blocks=[jobs, jobs]",
            "observation.blocks: value ['jobs', 'jobs'] names a block twice; name every block once",
        ),
        ("observation.blocks=[]", "observation.blocks: value []; Tuple should have at least 1 item"),
        ("observation.time_scale_s=1", "observation.time_scale_s: value 1"),
        ("objective=fun", "objective: value 'fun' is no preset; use one of slowdown, bounded_slowdown, "),
        ("objective.reward={slowdwn: 1}", "objective.reward.slowdwn"),
        ("objective.reward={}", "objective.reward: value"),
        ("objective.reward.slowdown=much", "objective.reward.slowdown: value 'much'"),
        ("objective.gamma=0", f"objective.gamma: value 0; {RANGES} 0"),
        ("objective.gamma=1.1", "objective.gamma: value 1.1; Input should be less than or equal to 1"),
        ("objective.scope=x", "objective.scope: value 'x'; Input should be 'all' or 'window'"),
        ("episode.jobs=0", f"episode.jobs: value 0; {RANGES}"),
        (
            "episode.end=max_ticks",
            "episode.max_ticks: is missing where end is max_ticks; set episode.max_ticks=N",
        ),
        (
            "episode.max_ticks=5",
            "episode.max_ticks: value 5 has no effect where end is all_finished; set episode.end=max_ticks",
        ),
        ("schema_version=2", "schema_version: value 2; Input should be 1"),
        ("name=3", "name: value 3; Input should be a valid string"),
        # paths that lead nowhere
        ("cluster.tick_s", "'cluster.tick_s' is no assignment; write --set key.path=value"),
        ("=1", "'=1' is no assignment"),
        ("x" * 5000, f"'{'x' * 80}...' is no assignment"),
        ("episode.jobs=" + "9" * 5000, f"'episode.jobs={'9' * 67}...' has no YAML value (a number of 5,000"),
        ("cluster.resources.1.units=1", "'cluster.resources.1.units=1': no element '1'; use 0..0"),
        ("cluster.resources.-1.units=1", "'cluster.resources.-1.units=1': no element '-1'"),
        ("cluster.resources.x=1", "'cluster.resources.x=1': no element 'x'; use 0..0"),
        ("observation.blocks.0.x=1", "'observation.blocks.0.x=1' goes through a plain value; shorten"),
        ("observation.blocks.0.x.y=1", "'observation.blocks.0.x.y=1' goes through a plain value"),
        ("objective.reward=[", "'objective.reward=[' has no YAML value ("),
    ],
)
def test_an_override_that_cannot_be(override: str, line: str) -> None:
    assert refused(override).startswith(f"--set: {line}")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("objective.reward={slowdwn: 1}", "'bounded_slowdown'"),
        ("objective=fun", "or a mapping with reward and costs"),
    ],
)
def test_the_allowed_values_are_said(override: str, message: str) -> None:
    assert message in refused(override)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({}, "mine: workload: is missing; give it a value"),
        ({"workload": None}, "mine: workload: value null; "),
        ({"workload": {}}, "mine: workload.kind: is missing; use one of 'lublin', 'swf', 'poisson', 'mao'"),
        ({"workload": {"kind": "swf"}}, "mine: workload.file: is missing; give it a value"),
        (
            {"workload": {"kind": "swf", "file": "a", "rules": "x"}},
            "mine: workload.rules: value 'x'; Input should be 'standard' or 'rlscheduler'",
        ),
        (
            {"workload": {"kind": "swf", "file": "a", "rate": 1}},
            "mine: workload.rate: unknown key; use one of dependencies, enrich, estimates, file",
        ),
        (
            {"workload": {"kind": "swf", "file": "a", "training_jobs": [1]}},
            "mine: workload.training_jobs.1: is missing; give it a value",
        ),
        ({**MODEL, 1: 2}, "mine: 1: value 1; Keys should be strings"),
    ],
)
def test_a_file_that_cannot_be(values: dict[str, Any], line: str) -> None:
    assert refused(values=values).startswith(line)


def test_overrides_reach_defaults_lists_and_whole_parts() -> None:
    changed = parsed(
        "decision.window=7",
        "cluster.resources.0.units=64",
        "observation.blocks.1=outlook",
        "episode={jobs: 5}",
        "workload.load=0.1",
        "objective.reward.wait_time=0.5",
    )
    assert changed.decision.window == 7
    assert changed.cluster.resources[0].units == 64
    assert changed.observation.blocks == ("jobs", "outlook", "queue")
    assert changed.episode.jobs == 5
    assert changed.workload.kind == "lublin"
    assert changed.workload.load == 0.1
    assert changed.objective.reward == {"bounded_slowdown": 1.0, "wait_time": 0.5}


def test_overrides_apply_in_order_and_are_checked_together() -> None:
    assert parsed("episode.end=max_ticks", "episode.max_ticks=9").episode.max_ticks == 9
    assert parsed("decision.window=1", "decision.window=2").decision.window == 2
    whole_then_part = parsed("episode={jobs: 5}", "episode.offsets=[1, 2]", "episode.offsets.1=3")
    assert whole_then_part.episode.offsets == (1, 3)
    assert parsed("episode.jobs=null").episode.jobs is None
    assert parsed("name=a=b").name == "a=b"


def test_overrides_leave_the_original_alone() -> None:
    values = {"workload": {"kind": "lublin"}, "observation": {"blocks": ["jobs", "queue"]}}
    before = json.dumps(values)
    parsed("observation.blocks.0=outlook", "workload.load=2", values=values)
    assert json.dumps(values) == before


def test_a_trace_becomes_a_path_and_plain_again() -> None:
    result = parsed("workload.training_jobs=[0, null]", values=TRACE)
    assert result.workload.kind == "swf"
    assert result.workload.file == Path("a.swf")
    assert result.workload.training_jobs == (0, None)
    assert result.model_dump(mode="json")["workload"]["file"] == "a.swf"


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"

    def line(content: bytes | None) -> str:
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(BadInputError) as caught:
            scenario.load(path)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert line(None).startswith(f"{path}: no such file")
    assert line(b"\xff\xfe\x00").startswith(f"{path}: cannot be read ('utf-8' codec")
    assert line(b"a: [1").startswith(f"{path}: is not YAML (")
    assert line(b"- 1").startswith(f"{path}: holds a list; give a mapping")
    assert line(b"").startswith(f"{path}: is empty; give a mapping")
    assert line(b"workload: {kind: lublin}\nepisode: {job: 1}").startswith(
        f"{path}: episode.job: unknown key"
    )
    path.write_text("workload: {kind: lublin}\n")
    assert scenario.load(path) == scenario.load(str(path)) == parsed()
    folder = tmp_path / "folder.yaml"
    folder.mkdir()
    with pytest.raises(BadInputError, match="cannot be read"):
        scenario.load(folder)


def test_an_unknown_name() -> None:
    with pytest.raises(BadInputError) as caught:
        scenario.load("lublin")
    assert str(caught.value).startswith("--scenario: unknown scenario 'lublin'; use a .yaml file or one of")
    assert all(name in str(caught.value) for name in scenario.names())


def test_a_digit_that_is_no_number() -> None:
    assert "no element '²'" in refused("cluster.resources.²=1")


def test_an_element_of_an_empty_list() -> None:
    assert "0..-1" not in refused("episode.offsets.0=1")


@pytest.mark.parametrize("override", ["objective.reward.slowdown=.nan", "workload.load=.inf"])
def test_numbers_are_finite(override: str) -> None:
    assert "finite" in refused(override)


GREEN = ("decision.horizon=48", "decision.action_rule=fit", "episode.end=max_ticks", "episode.max_ticks=9")


def test_a_misspelt_key_is_said_before_the_one_that_is_missing_for_it() -> None:
    line = refused(*GREEN, "power.battery={capacity: 9, charge_kw: 1, discharge_kw: 1}")
    assert line.startswith(
        "--set: power.battery.capacity: unknown key; did you mean 'capacity_kwh'? use one of capacity_kwh"
    )


def test_an_error_of_a_validator_says_the_same_by_itself() -> None:
    with pytest.raises(ValidationError, match="idle_w: value 3 is more than full_w 2; set at most that"):
        scenario.Resource(idle_w=3, full_w=2)


def test_a_cluster_is_resolved_by_what_the_workload_knows() -> None:
    gpus = scenario.Resource(name="gpus")
    written = scenario.Cluster(resources=(scenario.Resource(), gpus.model_copy(update={"units": 4})))
    cluster = written.resolve(64, "it")
    assert cluster.units == [64, 4]
    assert written.resolve(8, "it").resolve(64, "it").units == [8, 4]
    with pytest.raises(BadInputError, match=r"^it: does not say how many processors the machine has"):
        written.resolve(None, "it")
    with pytest.raises(BadInputError, match=r"cluster.resources.1.units: value None: .* how much gpus"):
        scenario.Cluster(resources=(scenario.Resource(units=1), scenario.Resource(name="gpus"))).resolve(
            64, "it"
        )
    with pytest.raises(BadInputError, match=r"cluster.resources.0.units_per_node: value 8 is more than"):
        scenario.Cluster(resources=(scenario.Resource(units_per_node=8),)).resolve(4, "it")


def test_a_resolved_scenario_has_the_settings_and_the_text_of_one_as_written() -> None:
    written = scenario.load("lublin-256")
    resolved = written.resolve(written.cluster.resolve(None, "it"))
    assert isinstance(resolved.public, scenario.ResolvedScenario)
    assert (resolved, written, hash(resolved.cluster)) == (written, resolved, hash(written.cluster))
    assert resolved.model_dump_json() == written.model_dump_json()
    assert scenario.ResolvedScenario.model_validate_json(written.model_dump_json()) == resolved
    assert resolved.model_copy(update={"name": "another"}) != written
    open_machine = written.model_copy(update={"cluster": scenario.Cluster()})
    assert open_machine != open_machine.resolve(scenario.Cluster().resolve(64, "it"))
    with pytest.raises(ValidationError):
        scenario.ResolvedScenario.model_validate(open_machine.model_dump(mode="json"))

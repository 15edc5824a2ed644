"""TrainConfig: what it refuses, and whose an override is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import yaml
from pydantic import BaseModel

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.learn.algorithms.base import ALGORITHMS
from rlsched.learn.algorithms.ppo import Ppo
from rlsched.learn.config.training import ResolvedConfig, TrainConfig, make_config, read_config
from rlsched.scenario.combined_file import split_overrides


def refused(*overrides: str, values: dict[str, object] | None = None) -> str:
    with pytest.raises(BadInputError) as caught:
        make_config(values or {}, "mine.yaml", overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_overrides_are_distinguished_by_their_first_key() -> None:
    training, simulated = split_overrides(
        TrainConfig,
        ["ppo.epochs=2", "episode.jobs=5", "steps=9", "stepz=9", "network={}", "objective.gamma=1"],
    )
    assert training == ["ppo.epochs=2", "steps=9", "network={}"]
    assert simulated == ["episode.jobs=5", "stepz=9", "objective.gamma=1"]  # unknown: refused there


@pytest.mark.parametrize(
    ("override", "line"),
    [
        (
            "ppo.minibatsh=1",
            "--set: ppo.minibatsh: unknown key; did you mean 'minibatch'? use one of calibration, clip, ",
        ),
        (
            "sampling.envs=1",
            "--set: sampling.envs: unknown key; use one of batched, candidates, envs_per_runner, fragment, ",
        ),
        ("algo=a3c", "--set: algo: value 'a3c'; Input should be 'appo', 'bc', 'cocorl'"),
        ("seed=-1", "--set: seed: value -1; Input should be greater than or equal to 0"),
        ("steps=0", "--set: steps: value 0"),
        ("minutes=0", "--set: minutes: value 0"),
        ("network.kind=gnn", "--set: network.kind: value 'gnn'; Input should be 'job_scorer', 'mlp'"),
        ("network.hidden=[]", "--set: network.hidden: value []"),
        (
            "network.hidden.0=0",
            "--set: network.hidden.0: value 0; Input should be greater than or equal to 1",
        ),
        ("network.attention=-1", "--set: network.attention: value -1"),
        ("network.critic_hidden=[8, -1]", "--set: network.critic_hidden.1: value -1"),
        ("ppo.gae_lambda=1.1", "--set: ppo.gae_lambda: value 1.1"),
        ("validation.metric=bsld", "--set: validation.metric: value 'bsld'; "),
        ("validation.episodes=0", "--set: validation.episodes: value 0"),
    ],
)
def test_a_setting_that_cannot_be(override: str, line: str) -> None:
    assert refused(override).startswith(line)


def test_the_known_metrics_are_said() -> None:
    assert "one of bounded_slowdown," in refused("validation.metric=bsld")


@pytest.mark.parametrize(
    ("overrides", "batch"),
    [
        (["sampling.envs_per_runner=4", "sampling.fragment=8"], 32),
        (["sampling.envs_per_runner=4", "sampling.fragment=8", "sampling.runners=1"], 32),
        (["sampling.envs_per_runner=4", "sampling.fragment=8", "sampling.runners=3"], 96),
    ],
)
def test_a_minibatch_is_no_more_than_a_batch_holds(overrides: list[str], batch: int) -> None:
    config = make_config({}, "t", [*overrides, f"ppo.minibatch={batch}"])
    assert config.ppo.minibatch == batch
    line = refused(*overrides, f"ppo.minibatch={batch + 1}")
    assert f"ppo.minibatch {batch + 1} is more than the {batch} decisions of a batch" in line


def test_a_training_that_does_not_fit_together_is_no_scenario() -> None:
    assert "scenario" not in refused("ppo.minibatch=100000000")


def test_defaults_are_a_whole_and_read_as_themselves() -> None:
    config = TrainConfig()
    again = yaml.safe_load(yaml.safe_dump(config.model_dump(mode="json")))
    assert make_config(again, "again") == config


def test_no_setting_takes_more_than_two_lines_to_describe() -> None:
    """Of 100 characters each."""

    def described(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
        for name, field in model.model_fields.items():
            yield f"{model.__name__}.{name}", field.description or ""
            for kind in (field.annotation, *get_args(field.annotation)):
                if isinstance(kind, type) and issubclass(kind, BaseModel):
                    yield from described(kind)

    actual = dict(described(TrainConfig))
    assert len(actual) > 150
    assert [name for name, text in actual.items() if len(text) > 200] == []


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "train.yaml"
    path.write_text("scenario: lublin-256\nsteps: 5\nppo: {epochs: 2}\n")
    simulated, config = read_config(path, ["ppo.minibatch=32", "episode.jobs=7"])
    assert simulated == scenario.load("lublin-256", ["episode.jobs=7"])
    assert (config.steps, config.ppo.epochs, config.ppo.minibatch) == (5, 2, 32)

    path.write_text("scenario: {workload: {kind: lublin}, episode: {jobs: 3}}\n")
    assert read_config(path)[0].episode.jobs == 3
    path.write_text("steps: 5\n")
    with pytest.raises(BadInputError, match=r"train\.yaml: scenario: is missing; name one"):
        read_config(path)

    for text, line in (
        ("stepz: 5", f"{path}: stepz: unknown key; did you mean 'steps'? use one of algo,"),
        ("scenario: {workload: {kind: lublin}, clustr: 1}", f"{path}: scenario: clustr: unknown key"),
        (
            "network: {kid: mlp}",
            f"{path}: network.kid: unknown key; did you mean 'kind'? use one of attention,",
        ),
        ("scenario: lublin", "--scenario: unknown scenario 'lublin'"),
        ("- 5", f"{path}: holds a list"),
    ):
        path.write_text(text)
        with pytest.raises(BadInputError) as caught:
            read_config(path)
        assert str(caught.value).startswith(line)
    with pytest.raises(BadInputError, match="no such file"):
        read_config(tmp_path / "none.yaml")


def test_only_appo_plays_elsewhere_by_itself() -> None:
    chosen = scenario.load("green-10")
    for algo, runners in (("ppo", 0), ("dqn", 0), ("appo", 1)):
        assert make_config({}, "test", [f"algo={algo}"]).resolve(chosen).sampling.runners == runners
        arguments = make_config({}, "test", [f"algo={algo}", "sampling.runners=3"]).resolve(chosen)
        assert arguments.sampling.runners == 3


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("lublin-256", [], 0.9 ** (1 / 3600)),  # ticks of a second
        ("green-10", [], 0.98),  # which is planned on
        ("green-10", ["ppo.gae_lambda=0.8"], 0.8),
        ("green-10", ["algo=cocorl"], scenario.load("green-10").objective.gamma),
    ],
)
def test_lambda_goes_with_the_scenario_where_it_is_left_out(
    name: str, settings: list[str], expected: float
) -> None:
    settled = make_config({}, "test", settings).resolve(scenario.load(name))
    assert settled.section(Ppo).gae_lambda == pytest.approx(expected)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (
            ["dqn.buffer=300"],
            "dqn.buffer: value 300 is less than the 512 decisions that come between updates",
        ),
        (["steps=3000"], "dqn.learning_starts 10000 is no less than steps 3000: nothing would be learned"),
    ],
)
def test_dqn_has_room_and_time_to_learn(settings: list[str], line: str) -> None:
    assert line in refused("algo=dqn", *settings)
    make_config({}, "test", settings)  # of no interest to ppo


@pytest.mark.parametrize(
    ("name", "settings", "teacher"),
    [
        ("green-10", [], "packing"),
        ("deeprm", [], "sjf"),
        ("deeprm", ["objective.reward={slowdown: 0, utilization: 1}"], "packing"),
        ("lublin-256", [], None),
    ],
)
def test_policies_begin_with_imitation_where_jobs_are_planned(
    name: str, settings: list[str], teacher: str | None
) -> None:
    chosen = scenario.load(name, settings)
    for algo in ("ppo", "cocorl", "appo", "dqn"):
        config = make_config({}, "test", [f"algo={algo}"]).resolve(chosen)
        imitation = config.imitation(chosen)
        assert (None if imitation is None else imitation.teacher) == teacher
        assert config.resolve(chosen) == config
    for words in (["algo=rare"], ["algo=reinforce"], ["algo=priority_search"], ["warm_start.decisions=0"]):
        assert make_config({}, "test", words).resolve(chosen).imitation(chosen) is None
    arguments = make_config({}, "test", ["warm_start.teacher=fcfs"]).imitation(chosen)
    assert arguments is not None
    assert arguments.teacher == "fcfs"


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("lublin-256", "bounded_slowdown"),
        ("green-10", "job_value_ratio"),
        ("green-10-sla", "on_time_value_ratio"),
    ],
)
def test_the_metric_that_chooses_follows_from_the_scenario(name: str, metric: str) -> None:
    assert make_config({}, "test").resolve(scenario.load(name)).validation.metric == metric


@pytest.mark.parametrize("algo", sorted(ALGORITHMS))
def test_resolved_settings_have_no_omissions(algo: str) -> None:
    """They are resolved once: a second time nothing changes."""
    simulated = scenario.load("lublin-256")
    chosen = {"algo": algo} | ({} if ALGORITHMS[algo].dataset != "required" else {"dataset": "somewhere"})
    resolved = make_config(chosen, "test").resolve(simulated)
    assert isinstance(resolved, ResolvedConfig)
    assert resolved.resolve(simulated) == resolved
    omitted = (resolved.steps, *dict(resolved.sampling).values(), resolved.validation.metric)
    assert None not in omitted
    assert make_config(resolved.model_dump(mode="json"), "test").resolve(simulated) == resolved

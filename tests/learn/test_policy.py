"""The artefact of a trained policy: the same decisions after a round trip, damage found, old ones kept."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import rlsched.learn.policy
from rlsched.errors import BadInputError
from rlsched.files import checksum
from rlsched.json_files import without_checksum
from rlsched.learn.config.sections import Network
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.policy import NetworkPolicy, load_policy
from rlsched.learn.policy_folder import find_policy
from rlsched.scenario import PRIVILEGED, Scenario
from rlsched.sim.layout import Layout, public_columns

from .states import met


def policy_of(scenario: Scenario, kind: str = "job_scorer", seed: int = 0) -> NetworkPolicy:
    torch.manual_seed(seed)
    network = Network(kind=kind, hidden=(16,))
    net = build_policy(Layout.of(scenario.observation, scenario.decision, 1), network)
    return NetworkPolicy(scenario, network, net, 1, {"algo": "ppo", "seed": seed})


@pytest.mark.parametrize("kind", ["job_scorer", "mlp"])
def test_it_decides_the_same_after_a_round_trip(small: Scenario, tmp_path: Path, kind: str) -> None:
    policy = policy_of(small, kind)
    policy.save(tmp_path / "p")
    again = load_policy(tmp_path / "p")
    assert (again.scenario, again.network, again.num_resources) == (small.public, policy.network, 1)
    assert again.about == {"algo": "ppo", "seed": 0}
    obs, mask = (part.numpy() for part in met(small.public))
    assert (again.act(obs, mask.astype(np.int8)) == policy.act(obs, mask.astype(np.int8))).all()
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == ["policy.json", "weights.safetensors"]
    assert [path.name for path in tmp_path.iterdir()] == ["p"]


@pytest.mark.parametrize("kind", ["job_scorer", "mlp"])
def test_trained_with_privileged_blocks_it_decides_the_same_without(
    small: Scenario, tmp_path: Path, kind: str
) -> None:
    """Older versions wrote artefacts with these blocks in their scenario, too; they load as others do."""
    assert PRIVILEGED & set(small.observation.blocks)
    whole = Layout.of(small.observation, small.decision, 1)
    network = Network(kind=kind, hidden=(16,))
    net = build_policy(whole, network)
    policy = NetworkPolicy(small, network, net, 1, {})
    assert (policy.scenario, policy.layout.size) == (small.public, len(public_columns(whole)))
    policy.save(tmp_path / "p")
    edited(scenario=small.model_dump(mode="json"))(tmp_path / "p")
    obs, mask = met(small)
    expected = net(obs, mask)
    for item in (policy, load_policy(tmp_path / "p")):
        assert item.scenario == small.public
        recorded = obs[:, public_columns(whole)]
        assert torch.equal(item.logits(recorded.numpy(), mask.numpy().astype(np.int8)), expected)
    assert policy.fingerprint == load_policy(tmp_path / "p").fingerprint


def test_a_folder_with_a_long_name_is_written_and_replaced(small: Scenario, tmp_path: Path) -> None:
    for _ in range(2):
        policy_of(small).save(tmp_path / ("n" * 255))
    assert [path.name for path in tmp_path.iterdir()] == ["n" * 255]


def test_an_error_names_the_folder_as_it_was_given(small: Scenario) -> None:
    with pytest.raises(OSError, match="'/proc/policy'"):  # where nobody may write
        policy_of(small).save(Path("/proc/policy"))


def test_it_decides_legally_greedily_and_by_draw(small: Scenario, tmp_path: Path) -> None:
    policy_of(small).save(tmp_path / "p")
    obs, mask = (part.numpy() for part in met(small.public))
    mask = mask.astype(np.int8)
    greedy, drawing = load_policy(tmp_path / "p"), load_policy(tmp_path / "p", sample=True)
    threads = torch.get_num_threads()
    for policy in (greedy, drawing):
        actions = policy.act(obs, mask)
        assert actions.dtype == np.int64
        assert mask[np.arange(len(mask)), actions].all()
    assert torch.get_num_threads() == threads
    assert (greedy.act(obs, mask) == greedy.act(obs, mask)).all()
    assert (drawing.act(obs, mask) != drawing.act(obs, mask)).any()


def test_draws_follow_the_distribution(small: Scenario) -> None:
    policy = policy_of(small, "mlp")
    drawing = NetworkPolicy(small, policy.network, policy.net, 1, {}, sample=True)
    obs, mask = met(small.public, envs=1, steps=1)
    expected = torch.softmax(policy.net(obs, mask), 1)[0].detach().numpy()
    torch.manual_seed(1)
    many = drawing.act(np.repeat(obs.numpy(), 20_000, 0), np.repeat(mask.numpy(), 20_000, 0).astype(np.int8))
    actual = np.bincount(many, minlength=len(expected)) / 20_000
    assert actual == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("inside", ["", "policy", "best", ".best.old"])
def test_runs_and_checkpoints_hold_it(small: Scenario, tmp_path: Path, inside: str) -> None:
    policy_of(small).save(tmp_path / "r" / inside if inside else tmp_path / "r")
    assert find_policy(tmp_path / "r") == tmp_path / "r" / inside
    assert load_policy(tmp_path / "r").scenario == small.public


def settings_of(folder: Path) -> dict[str, Any]:
    """As older versions wrote them, without a checksum."""
    return without_checksum(json.loads((folder / "policy.json").read_text()))


def edited(**changes: object) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        (folder / "policy.json").write_text(json.dumps(settings_of(folder) | changes))

    return edit


RANDOM_WEIGHTS = {"prior": {}, "waiting": None, "deferring": None, "sharpness": 60.0, "gain": 6.0}
"""As older versions wrote them."""


@pytest.mark.parametrize(
    ("older", "refused"),
    [
        (RANDOM_WEIGHTS, ""),
        (RANDOM_WEIGHTS | {"prior": {"requested": -1.0}}, "network.prior"),
        (RANDOM_WEIGHTS | {"prior": None}, "network.prior"),
        (RANDOM_WEIGHTS | {"waiting": -4.0}, "network.waiting"),
        (RANDOM_WEIGHTS | {"deferring": {}}, "network.deferring"),
        (RANDOM_WEIGHTS | {"sharpness": 8.0}, "network.sharpness"),
        ({"prior": {}, "sharpness": 60.0}, "network.waiting"),
        (RANDOM_WEIGHTS | {"kind": "mlp", "waiting": -4.0, "gain": 1.0}, ""),
    ],
)
def test_policies_of_older_versions_are_read_or_refused(
    small: Scenario, tmp_path: Path, older: dict[str, Any], refused: str
) -> None:
    policy = policy_of(small, older.get("kind", "job_scorer"))
    policy.save(tmp_path / "p")
    edited(network=settings_of(tmp_path / "p")["network"] | older)(tmp_path / "p")
    if refused:
        with pytest.raises(BadInputError, match=rf"is of an older version \({refused}\); train it again"):
            load_policy(tmp_path / "p")
        return
    obs, mask = (value.numpy() for value in met(small.public, envs=1, steps=5))
    again = load_policy(tmp_path / "p").logits(obs, mask.astype(np.int8))
    assert torch.equal(again, policy.logits(obs, mask.astype(np.int8)))


def without(key: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        values = settings_of(folder)
        del values[key]
        (folder / "policy.json").write_text(json.dumps(values))

    return edit


def text(content: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "policy.json").write_text(content) and None


@pytest.mark.parametrize("kind", ["job_scorer", "priority"])
def test_weights_with_former_names_still_load(small: Scenario, tmp_path: Path, kind: str) -> None:
    policy = policy_of(small, kind)
    policy.save(folder := tmp_path / "p")
    saved = load_file(folder / "weights.safetensors")
    former = {name.replace("other_actions", "others"): value for name, value in saved.items()}
    assert former.keys() != saved.keys()
    save_file(former, folder / "weights.safetensors")
    edited(weights=checksum(folder / "weights.safetensors"))(folder)
    obs, mask = (part.numpy() for part in met(small.public))
    again = load_policy(folder)
    assert (again.act(obs, mask.astype(np.int8)) == policy.act(obs, mask.astype(np.int8))).all()


def weights(keep: float, flip: bool = False) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        content = bytearray((folder / "weights.safetensors").read_bytes())
        if flip:
            content[len(content) // 2] ^= 0xFF
        (folder / "weights.safetensors").write_bytes(bytes(content[: int(len(content) * keep)]))

    return edit


def other_weights(folder: Path) -> None:
    saved = load_file(folder / "weights.safetensors")
    saved.popitem()
    save_file(saved, folder / "weights.safetensors")
    edited(weights=checksum(folder / "weights.safetensors"))(folder)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "no settings": lambda folder: (folder / "policy.json").unlink(),
    "no weights": lambda folder: (folder / "weights.safetensors").unlink(),
    "empty settings": text(""),
    "half the settings": text('{"schema": 1, "scen'),
    "a list": text("[1, 2]"),
    "null": text("null"),
    "binary settings": lambda folder: (folder / "policy.json").write_bytes(b"\xff\xfe\x00"),
    "no scenario": without("scenario"),
    "no network": without("network"),
    "unknown scenario key": edited(scenario={"workload": {"kind": "lublin"}, "clustr": 1}),
    "unknown network": edited(network={"kind": "transformer"}),
    "scenario of another kind": edited(scenario=5),
    "no resources": edited(num_resources=None),
    "other window": edited(network={"kind": "mlp", "hidden": [16]}),
    "empty weights": weights(0.0),
    "half the weights": weights(0.5),
    "nearly all weights": weights(0.99),
    "a bit of the weights": weights(1.0, flip=True),
    "other weights": other_weights,
    "no checksum": without("weights"),
    "another schema": edited(schema=2),
    "about is a list": edited(about=[]),
    "network is a list": edited(network=[]),
    "a key twice": text('{"schema": 1, "schema": 1}'),
    "nested deeply": text("[" * 100_000),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_said_in_one_line(small: Scenario, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "p"
    policy_of(small).save(folder)
    DAMAGE[damage](folder)
    with pytest.raises(BadInputError) as caught:
        load_policy(folder)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(str(folder))


SIZES: dict[str, tuple[dict[str, Any], str]] = {
    "resources": ({"num_resources": 1000}, "num_resources is 1000, and its scenario has 1"),
    "hidden": (
        {"network": {"hidden": [1000]}},
        "body.0.weight is (1, 16) in weights.safetensors, and (1, 1000)",
    ),
    "layers": (
        {"network": {"hidden": [16, 1000]}},
        "body.0.bias is (1,) in weights.safetensors, and (1000,)",
    ),
    "more layers": ({"network": {"hidden": [16] * 9}}, "and (16,) by its settings"),
    "beyond 64 bits": ({"network": {"hidden": [10**30]}}, "is damaged"),
    "memory": ({"network": {"hidden": [16], "lstm": 1000}}, "and unknown by its settings"),
    "attention": ({"network": {"hidden": [16], "attention": 200}}, "missing in weights.safetensors"),
    "window": ({"decision": {"window": 200_000}}, "decision.window: value 200000"),
    "releases": (
        {"observation": {"event_horizon": 200_000}},
        "observation.event_horizon: value 200000",
    ),
}


@pytest.mark.parametrize("case", SIZES)
def test_sizes_are_held_against_the_weights_before_anything_is_made(
    small: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    changes, line = SIZES[case]
    folder = tmp_path / "p"
    policy_of(small).save(folder)
    scenario = settings_of(folder)["scenario"]
    for part in ("decision", "observation"):
        scenario[part] |= changes.get(part, {})
    whole = {key: changes[key] for key in ("network", "num_resources") if key in changes}
    edited(scenario=scenario, **whole)(folder)
    places = []
    original = torch.nn.init.kaiming_uniform_

    def spy(tensor: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        places.append(tensor.device.type)
        return original(tensor, *arguments, **options)

    monkeypatch.setattr(torch.nn.init, "kaiming_uniform_", spy)
    with pytest.raises(BadInputError) as caught:
        load_policy(folder)
    assert line in str(caught.value)
    assert set(places) <= {"meta"}


def test_settings_changed_by_hand_are_refused(small: Scenario, tmp_path: Path) -> None:
    folder = tmp_path / "p"
    policy_of(small).save(folder)
    settings = json.loads((folder / "policy.json").read_text())
    settings["scenario"]["decision"]["window"] += 1
    (folder / "policy.json").write_text(json.dumps(settings))
    with pytest.raises(BadInputError, match="it was changed since it was written"):
        load_policy(folder)


def test_weights_are_never_unpickled(small: Scenario, tmp_path: Path) -> None:
    folder = tmp_path / "p"
    policy = policy_of(small)
    policy.save(folder)
    torch.save(policy.net.state_dict(), folder / "weights.safetensors")
    edited(weights=checksum(folder / "weights.safetensors"))(folder)
    with pytest.raises(BadInputError, match="damaged"):
        load_policy(folder)


@pytest.mark.parametrize("step", ["weights", "settings", "put aside", "put in place"])
def test_an_interrupted_save_leaves_the_old_one(
    small: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    folder = tmp_path / "best"
    policy_of(small, seed=1).save(folder)
    before = (folder / "weights.safetensors").read_bytes()
    calls = {"weights": (rlsched.learn.policy, "save", 0), "settings": (json, "dumps", 0)}
    module, name, fails_at = calls.get(step, (os, "replace", 0 if step == "put aside" else 1))
    original, called = getattr(module, name), 0

    def fail(*arguments: object, **options: object) -> object:
        nonlocal called
        called += 1
        if called == fails_at + 1:
            raise OSError("disk full")
        return original(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(module, name, fail)
        with pytest.raises(OSError, match="disk full"):
            policy_of(small, seed=2).save(folder)
    assert (folder / "weights.safetensors").read_bytes() == before
    assert load_policy(tmp_path).about["seed"] == 1
    policy_of(small, seed=3).save(folder)
    assert load_policy(folder).about["seed"] == 3
    assert [path.name for path in tmp_path.iterdir()] == ["best"]

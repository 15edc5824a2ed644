"""Priority searches that resume, or start from another search."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rlsched import scenario
from rlsched.cli.main import main
from rlsched.errors import BadInputError
from rlsched.learn.config.training import make_config
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.policy import NetworkPolicy
from rlsched.sim.layout import Layout
from tests.learn.test_search import SHORT, TINY, engine, record, values_around

pytestmark = pytest.mark.usefixtures("no_ray")


@pytest.mark.parametrize(
    ("name", "ends", "hidden"),
    [
        ("green-10", SHORT, 0),
        ("green-10", SHORT, 5),  # too many parameters for a full covariance
        ("lublin-sizes", ("episode.jobs=96", "episode.end=all_finished"), 0),  # where there are prices
    ],
)
def test_a_run_goes_on_as_if_it_had_never_stopped(
    tmp_path: Path, name: str, ends: tuple[str, ...], hidden: int
) -> None:
    settings, simulated = f"network.priority_units={hidden}", scenario.load(name, ends)
    unbroken = engine(settings, simulated=simulated)
    for _ in range(2):
        unbroken.iterate()
    unbroken.save(tmp_path / "state")
    priced = [price.multiplier for price in unbroken.multipliers.values()]
    assert (max(priced, default=0.0) > 0) == (name == "lublin-sizes")
    expected = record(unbroken)
    rows = [unbroken.iterate() for _ in range(3)]

    resumed = engine(settings, simulated=simulated, iteration=2)
    actual = record(resumed)
    resumed.restore(tmp_path / "state", resumed.policy())
    assert rows == [resumed.iterate() for _ in range(3)]
    for item, second in zip(expected, actual, strict=True):
        assert (item[0] == second[0]).all()
        assert item[1] == second[1]
    assert (unbroken.net.flat() == resumed.net.flat()).all()
    assert unbroken.multipliers == resumed.multipliers
    assert unbroken.policy().about == {"algo": "priority_search", "seed": 0}


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0x10]) + content[middle + 1 :]


@pytest.mark.parametrize("damage", [cut, flip, lambda _: b"", lambda _: b"other", None])
def test_a_damaged_search_is_one_clear_line(tmp_path: Path, damage: Callable[[bytes], bytes] | None) -> None:
    search = engine()
    folder = tmp_path / "checkpoints" / "000001" / "search"
    search.save(folder)
    file = folder / "search.npz"
    file.unlink() if damage is None else file.write_bytes(damage(file.read_bytes()))
    before = search.net.flat()
    with pytest.raises(BadInputError, match=r"search\.npz: is damaged or of another version") as caught:
        search.restore(folder, search.policy())
    assert f"remove {folder.parent} to resume from the checkpoint before" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (search.net.flat() == before).all()


def test_a_search_of_other_settings_is_refused(tmp_path: Path) -> None:
    priced = scenario.load("lublin-sizes", ["episode.jobs=96"])
    second = engine("network.priority_units=2", simulated=priced)
    second.iterate()
    second.save(tmp_path / "state")
    assert second.multipliers
    search = engine(simulated=priced)
    with pytest.raises(BadInputError, match="parameters, not"):
        search.restore(tmp_path / "state", search.policy())
    assert not search.multipliers


def test_a_search_begins_with_the_result_of_another(tmp_path: Path) -> None:
    """Whatever the window is: what a job is judged by stays the same."""
    second = engine("network.priority_units=3")
    second.net.set_flat(values_around(second)[0])
    second.policy().save(tmp_path / "found")
    wider = scenario.load("green-10", [*SHORT, "decision.window=9"])
    words = ("network.priority_units=3", f"search.start={tmp_path / 'found'}")
    search = engine(*words, simulated=wider)
    assert (search.es.mean == second.net.flat()).all()
    assert (search.policy().net.flat() == second.net.flat()).all()
    search.iterate()
    search.save(tmp_path / "state")
    shutil.rmtree(tmp_path / "found")  # nobody needs it to go on
    resumed = engine(*words, simulated=wider, iteration=1)
    resumed.restore(tmp_path / "state", search.policy())
    assert (resumed.net.flat() == search.net.flat()).all()


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "search.start: no such folder: .*; name a run of"),
        (("green-10", "network.kind=job_scorer"), "search.start: .* holds a job_scorer; name a run of"),
        (("green-10", "network.priority_units=2"), "has 2 hidden units, not 0; set network.priority_units=2"),
        (
            ("lublin-256", "network.kind=priority"),
            "judges jobs of 1 resources without a horizon; name one of 2",
        ),
    ],
)
def test_a_search_begins_with_nothing_else(
    tmp_path: Path, result: tuple[str, str] | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if result is not None:
        simulated = scenario.load(result[0])
        config = make_config({}, "test", [result[1], *(TINY if "units" in result[1] else ())])
        network = config.resolve(simulated).network
        resources = len(simulated.cluster.resources)
        layout = Layout.of(simulated.observation, simulated.decision, resources)
        net = build_policy(layout, network)
        NetworkPolicy(simulated, network, net, resources, {}).save(tmp_path / "found")
    words = ["train", "--scenario", "green-10", "--algo", "priority_search", "--out", str(tmp_path / "run")]
    assert main([*words, "--set", f"search.start={tmp_path / 'found'}"]) == 2
    assert re.search(message, " ".join(capsys.readouterr().err.split()))
    assert not (tmp_path / "run").exists()


def test_a_search_that_sees_the_history_begins_with_one_that_saw_it(tmp_path: Path) -> None:
    blind = scenario.load("lublin-sizes", ["observation.blocks=[jobs, queue]"])
    engine(simulated=blind).policy().save(tmp_path / "found")
    with pytest.raises(BadInputError, match=r"judges states by queue, not by queue, history; name one whose"):
        engine(f"search.start={tmp_path / 'found'}", simulated=scenario.load("lublin-sizes"))


def test_a_search_does_not_begin_with_one_that_saw_more_of_jobs(tmp_path: Path) -> None:
    """With the supply a job has columns that it has not without: weights would be taken for others."""
    supplied = scenario.load("green-10", [*SHORT, "observation.blocks=[jobs, queue, supply]"])
    engine(simulated=supplied).policy().save(tmp_path / "found")
    plain = scenario.load("green-10", [*SHORT, "observation.blocks=[jobs, queue]"])
    with pytest.raises(
        BadInputError, match=r"judges jobs by present,.* green_0.*name one that judges them by"
    ):
        engine(f"search.start={tmp_path / 'found'}", simulated=plain)


@pytest.mark.parametrize(
    "words",
    [
        ["algo=ppo", "search.start=runs/x"],
        [*TINY, "warm_start.teacher=sjf"],
    ],
)
def test_a_start_goes_with_a_search_and_a_teacher_with_the_others(words: list[str]) -> None:
    with pytest.raises(BadInputError, match=r"search\.start"):
        make_config({}, "test", words)

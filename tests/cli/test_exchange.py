"""`rlsched dataset import` and `export`: from their files to ours, and back."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed

from ..priorities import priority_policy
from .conftest import Run

SHORT = ("--set", "episode.max_ticks=100")
GREEN = ("--scenario", "green-10")
NAMED = ("--column", "obs=seen", "--column", "truncateds=cut")


@pytest.fixture
def recorded(rlsched: Run, tmp_path: Path) -> Path:
    out = tmp_path / "recorded"
    words = ("collect", *GREEN, "--policy", "sjf", "--steps", 600, "--noise", 0.2)
    assert rlsched(*words, "--out", out, *SHORT).code == 0
    return out


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place of one's own for Minari."""
    pytest.importorskip("minari", reason="the extra rlsched[minari] is not installed")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


@pytest.fixture
def log(recorded: Path, tmp_path: Path) -> Path:
    """What somebody else wrote, with names of his own, who does not know how likely it was."""
    table = pq.read_table(sorted(recorded.glob("*.parquet")))
    path = tmp_path / "log.parquet"
    columns = table.select(["eps_id", "obs", "action_mask", "actions", "rewards", "truncateds", "elapsed"])
    pq.write_table(columns.rename_columns({"obs": "seen", "truncateds": "cut"}), path)
    return path


def test_shards_of_ours_say_what_they_were_recorded_with(
    rlsched: Run, recorded: Path, tmp_path: Path
) -> None:
    """Observations of green-50 are as long, and as small."""
    words = ("dataset", "import", recorded / "part-00000.parquet", "--out", tmp_path / "mine")
    refused = rlsched(*words, "--scenario", "green-50")
    assert refused.code == 2
    assert "--scenario: 'green-50' has another cluster than what is imported from" in refused.err
    assert not (tmp_path / "mine").exists()
    ran = rlsched(*words, "--json", "-")
    assert ran.code == 0, ran.err
    assert ran.json["scenario"]["name"] == "green-10"
    assert ran.json["scenario"]["episode"]["max_ticks"] == 100


def test_estimates_from_an_imported_log(rlsched: Run, log: Path, recorded: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    words = ("dataset", "import", log, *GREEN, "--column", "obs=seen", "--column")
    ran = rlsched(*words, "truncateds=cut", "--behavior", "night shift", "--out", out, "--json", "-", *SHORT)
    assert ran.code == 0, ran.err
    recorded_info = rlsched("dataset", "info", recorded, "--json", "-").json
    assert ran.json["left_out"] == recorded_info["episodes"]
    assert ran.json["rows"] == recorded_info["rows"] - recorded_info["episodes"]
    assert [behavior["behavior"] for behavior in ran.json["behaviors"]] == ["night shift"]
    assert "left out" in ran.err
    assert "probabilities of actions" in ran.err
    assert rlsched("dataset", "check", out).code == 0
    chosen = EpisodeFeed(scenario.load("green-10", [SHORT[1]])).scenario
    weights = {"duration": -1.0, "fits": 3.0}
    priority_policy(chosen, weights, noop=1.0, resources=2).save(tmp_path / "policy")
    judgement = rlsched("dataset", "judge", out, tmp_path / "policy", "--json", "-")
    (estimate,) = judgement.json["policies"].values()
    assert estimate["agreement"]["night shift"] > 0.8
    assert estimate["fqe"]["low"] <= estimate["fqe"]["mean"] <= estimate["fqe"]["high"]
    assert estimate["wis"]["mean"] is None
    assert "has no probabilities of its actions" in judgement.err
    assert not rlsched("dataset", "info", out, "--json", "-").json["chances"]


def test_minari_says_the_scenario_itself(rlsched: Run, recorded: Path, tmp_path: Path, store: None) -> None:
    name = "rlsched/sjf-v0"
    exported = rlsched("dataset", "export", recorded, "--minari", name, "--json", "-")
    assert exported.code == 0, exported.err
    assert Path(exported.json["folder"]).is_dir()
    back = rlsched("dataset", "import", name, "--out", tmp_path / "back", "--json", "-").json
    recorded_info = rlsched("dataset", "info", recorded, "--json", "-").json
    for key in ("rows", "episodes", "scenario", "shape"):
        assert back[key] == recorded_info[key], key
    again = rlsched("dataset", "export", recorded, "--minari", name)
    assert again.code == 2
    assert "is there already" in again.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("nowhere-v0", *GREEN),
            "nowhere-v0: is neither a file, nor a folder, nor a Minari",
        ),
        (
            ("LOG", *NAMED),
            "log.parquet: does not name its scenario; give it: --scenario",
        ),
        (
            ("LOG", *GREEN),
            "log.parquet: has no column 'obs'; name it by --column obs=THEIRS",
        ),
        (
            ("LOG", *GREEN, "--column", "x=y"),
            "--column: value 'x=y' renames nothing; write",
        ),
        (
            ("LOG", *GREEN, "--column", "obs"),
            "--column: value 'obs' renames nothing; write",
        ),
        (("LOG", *GREEN, "--behavior", ""), "--behavior: is empty; give the name of the recorded policy"),
        (("FOLDER", *GREEN), "holds no .parquet file; name a file, or a folder of files"),
    ],
)
def test_bad_input_is_one_line(
    words: tuple[str, ...],
    message: str,
    rlsched: Run,
    log: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    (tmp_path / "empty").mkdir()
    places = {"LOG": str(log), "FOLDER": str(tmp_path / "empty")}
    ran = rlsched("dataset", "import", *(places.get(word, word) for word in words), "--out", tmp_path / "out")
    assert ran.code == 2
    (line,) = ran.err.splitlines()
    assert message in line.replace(f"{tmp_path}/", "")
    assert not (tmp_path / "out").exists()


def test_set_without_a_scenario_changes_nothing(
    rlsched: Run, recorded: Path, tmp_path: Path, store: None
) -> None:
    assert rlsched("dataset", "export", recorded, "--minari", "sjf-v0").code == 0
    ran = rlsched("dataset", "import", "sjf-v0", "--out", tmp_path / "out", *SHORT)
    assert ran.code == 2
    assert "--set: needs --scenario; give a --scenario" in ran.err

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
    kept = table.select(["eps_id", "obs", "action_mask", "actions", "rewards", "truncateds", "elapsed"])
    pq.write_table(kept.rename_columns({"obs": "seen", "truncateds": "cut"}), path)
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
    found = rlsched(*words, "--json", "-")
    assert found.code == 0, found.err
    assert found.json["scenario"]["name"] == "green-10"
    assert found.json["scenario"]["episode"]["max_ticks"] == 100


def test_a_log_is_imported_and_judged_by(rlsched: Run, log: Path, recorded: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    words = ("dataset", "import", log, *GREEN, "--column", "obs=seen", "--column")
    found = rlsched(
        *words, "truncateds=cut", "--behavior", "night shift", "--out", out, "--json", "-", *SHORT
    )
    assert found.code == 0, found.err
    there = rlsched("dataset", "info", recorded, "--json", "-").json
    assert found.json["left_out"] == there["episodes"]
    assert found.json["rows"] == there["rows"] - there["episodes"]
    assert [one["behavior"] for one in found.json["behaviors"]] == ["night shift"]
    assert "left out" in found.err
    assert "probabilities of actions" in found.err
    assert rlsched("dataset", "check", out).code == 0
    chosen = EpisodeFeed(scenario.load("green-10", [SHORT[1]])).scenario
    weights = {"duration": -1.0, "fits": 3.0}
    priority_policy(chosen, weights, noop=1.0, resources=2).save(tmp_path / "policy")
    judged = rlsched("dataset", "judge", out, tmp_path / "policy", "--json", "-")
    (one,) = judged.json["policies"].values()
    assert one["agreement"]["night shift"] > 0.8
    assert one["fqe"]["low"] <= one["fqe"]["mean"] <= one["fqe"]["high"]
    assert one["wis"]["mean"] is None
    assert "has no probabilities of its actions" in judged.err
    assert not rlsched("dataset", "info", out, "--json", "-").json["chances"]


def test_minari_says_the_scenario_itself(rlsched: Run, recorded: Path, tmp_path: Path, store: None) -> None:
    name = "rlsched/sjf-v0"
    told = rlsched("dataset", "export", recorded, "--minari", name, "--json", "-")
    assert told.code == 0, told.err
    assert Path(told.json["folder"]).is_dir()
    back = rlsched("dataset", "import", name, "--out", tmp_path / "back", "--json", "-").json
    there = rlsched("dataset", "info", recorded, "--json", "-").json
    for key in ("rows", "episodes", "scenario", "shape"):
        assert back[key] == there[key], key
    again = rlsched("dataset", "export", recorded, "--minari", name)
    assert again.code == 2
    assert "is there already" in again.err


@pytest.mark.parametrize(
    ("words", "said"),
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
    said: str,
    rlsched: Run,
    log: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    (tmp_path / "empty").mkdir()
    places = {"LOG": str(log), "FOLDER": str(tmp_path / "empty")}
    found = rlsched(
        "dataset", "import", *(places.get(word, word) for word in words), "--out", tmp_path / "out"
    )
    assert found.code == 2
    (line,) = found.err.splitlines()
    assert said in line.replace(f"{tmp_path}/", "")
    assert not (tmp_path / "out").exists()


def test_set_without_a_scenario_changes_nothing(
    rlsched: Run, recorded: Path, tmp_path: Path, store: None
) -> None:
    assert rlsched("dataset", "export", recorded, "--minari", "sjf-v0").code == 0
    found = rlsched("dataset", "import", "sjf-v0", "--out", tmp_path / "out", *SHORT)
    assert found.code == 2
    assert "--set: needs --scenario; give a --scenario" in found.err

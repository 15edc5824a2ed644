"""`--render` and `--report` in scenarios with a horizon: films, pictures over time, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from rlsched.learn import policy as artefact
from rlsched.scenario import Scenario, load
from tests.policies import Forgetful

from .conftest import Run

GREEN = ("simulate", "--scenario", "green-10", "-p", "fcfs,sjf", "--episodes", "2")
SHORT = ("--set", "episode.max_ticks=40")


def test_a_film_of_the_first_policy(rlsched: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.GIF"
    ran = rlsched(*GREEN, *SHORT, "--render", out)
    assert ran.code == 0, ran.err
    assert f"picture: {out} (the first 40 ticks of the first episode under fcfs + now)" in ran.out
    assert Image.open(out).n_frames == 40  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == [out]


def test_a_long_episode_is_cut(rlsched: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.gif"
    ran = rlsched(*GREEN, "--set", "episode.max_ticks=300", "-b", "horizon", "--render", out)
    assert "(the first 200 ticks of the first episode under fcfs + horizon)" in ran.out
    assert Image.open(out).n_frames == 200  # type: ignore[attr-defined]


def test_stdout_stays_json(rlsched: Run, tmp_path: Path) -> None:
    ran = rlsched(*GREEN, *SHORT, "--render", tmp_path / "out.gif", "--json", "-")
    assert len(ran.json["episodes"]) == 4
    assert "picture:" in ran.err


def test_a_picture_and_a_report(rlsched: Run, tmp_path: Path) -> None:
    out, page = tmp_path / "out.png", tmp_path / "report"
    ran = rlsched(*GREEN, *SHORT, "--render", out, "--report", page)
    assert ran.code == 0, ran.err
    assert f"picture: {out}\n" in ran.out
    assert Image.open(out).size[0] == 1560
    names = {path.name for path in page.iterdir()}
    assert names == {"comparison.png", "jobs-1.png", "power-1.png", "report.html", "results.json"}
    text = (page / "report.html").read_text()
    assert "Power by source: green-10" in text
    assert "Jobs by place: green-10" in text


def test_without_power_there_are_jobs_only(rlsched: Run, tmp_path: Path) -> None:
    ran = rlsched(*GREEN, *SHORT, "--set", "power=null", "--report", tmp_path)
    assert ran.code == 0, ran.err
    assert {path.name for path in tmp_path.glob("*.png")} == {"comparison.png", "jobs-1.png"}


@dataclass(frozen=True)
class First(Forgetful):
    """A policy that takes the first legal action."""

    scenario: Scenario
    num_resources: int = 2

    def decide(self, obs: NDArray[np.float32], mask: NDArray[np.int8]) -> NDArray[np.int64]:
        return mask.argmax(axis=1)


def test_a_learned_policy(rlsched: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        artefact, "load_policy", lambda path, sample=False: First(load("green-10", [SHORT[1]]))
    )
    run, page, out = tmp_path / "run", tmp_path / "report", tmp_path / "out.gif"
    run.mkdir()
    ran = rlsched("evaluate", run, "--against", "fcfs", "--episodes", "2", "--report", page)
    assert ran.code == 0, ran.err
    assert (page / "power-1.png").is_file()
    ran = rlsched("simulate", "--scenario", "green-10", *SHORT, "-n", "1", "-p", run, "--render", out)
    assert ran.code == 0, ran.err
    assert f"under {run} + policy)" in " ".join(ran.out.split())


@pytest.mark.parametrize(
    ("scenario", "name", "message"),
    [
        ("green-10", "p.jpg", "--render: 'p.jpg': unknown format; end it in .png or .gif"),
        ("green-10", "p", "--render: 'p': unknown format; end it in .png or .gif"),
        ("green-10", "file/p.gif", "--render: cannot write 'file/p.gif'"),
        ("lublin-256", "p.gif", "--render: 'p.gif': a film shows ticks, which need decision.horizon"),
        ("lublin-256", "p.jpg", "--render: 'p.jpg': unknown format; end it in .png"),
    ],
)
def test_what_is_refused(
    rlsched: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str, name: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    ran = rlsched("simulate", "--scenario", scenario, "--episodes", "1", "--render", name)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {message}")
    assert ran.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_folder_of_a_picture_is_made(rlsched: Run, tmp_path: Path) -> None:
    picture = tmp_path / "runs" / "new" / "p.png"
    words = ("--episodes", "1", "--set", "episode.max_ticks=20", "--policy", "fcfs")
    ran = rlsched("simulate", "--scenario", "green-10", *words, "--render", picture)
    assert ran.code == 0, ran.err
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_an_episode_without_a_tick(rlsched: Run, tmp_path: Path) -> None:
    """What was found is shown; the film that cannot be made leaves nothing behind."""
    settings = ("--set", "episode={jobs: 1, end: no_new_job}", "--set", "power=null")
    ran = rlsched(*GREEN, *settings, "--render", tmp_path / "out.gif")
    assert ran.code == 2
    line = "--render: the first episode was over at once: nothing to film; end it in .png"
    assert ran.err == f"error: {line}\n"
    assert list(tmp_path.iterdir()) == []

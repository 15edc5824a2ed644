"""Every command in README and docs runs: as it stands, only shorter where it trains, and all on one Ray."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

ROOT = Path(__file__).parents[1]
ARCHIVE = re.compile(r"\b(lublin_256|HPC2N-2002-2\.2-cln|CTC-SP2-1996-3\.1-cln)\.swf\.gz")
# Less of everything a training does, and nothing else: the commands themselves stay as they are.
SHORTER = (
    "--steps 64 --set sampling.envs_per_runner=4 --set sampling.fragment=16 --set ppo.minibatch=16 "
    "--set dqn.learning_starts=0 --set validation.episodes=2"
)


def commands(page: Path) -> list[str]:
    """The lines of the page's sh blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if commands(page)]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a Ray that is started once; each command would start its own, which is half of its 20 s."""
    started = ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield started.address_info["address"]
    ray.shutdown()


def run(command: str, folder: Path, address: str) -> subprocess.CompletedProcess[str]:
    """Run one command in a folder that looks like a clone's root with the archive's traces in it."""
    words = shlex.split(command)
    assert words[0] == "rlsched"
    if words[1] == "train":
        words += ["--address", address]
        words += shlex.split("--steps 128" if "--resume" in words else SHORTER)
        if "warm_start" in command:
            words += shlex.split("--set warm_start.decisions=500")
        if "priority_search" in words:
            words += shlex.split("--set search.population=4 --set search.episodes=1")
    if words[1] == "evaluate" and "--episodes" in words:
        words[words.index("--episodes") + 1] = "2"
    environment = os.environ | {"COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, "-m", "rlsched", *words[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run(page: Path, tmp_path: Path, address: str, request: pytest.FixtureRequest) -> None:
    shutil.copytree(ROOT / "datasets", tmp_path / "datasets")
    for line in commands(page):
        if ARCHIVE.search(line):
            for file in (request.getfixturevalue("data_dir") / "swf").iterdir():
                if not (tmp_path / file.name).exists():
                    (tmp_path / file.name).symlink_to(file.resolve())
        done = run(line, tmp_path, address)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def test_python_examples_run(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})

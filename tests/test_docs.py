"""Every command in README and docs runs: as it stands, only shorter where it trains.

Each runs in a process of its own, but all on one Ray, and as copies of a process that has imported what takes
long; both together would be three quarters of a command's time.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest
import ray

from rlsched.cli.main import main

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
    """Of a Ray that is started once."""
    started = ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield started.address_info["address"]
    ray.shutdown()


@pytest.fixture(scope="module")
def prepared() -> ForkServerContext:
    """Of processes in which everything is imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "rlsched.learn.rllib", "torch._dynamo", "matplotlib.pyplot"])
    return context


def words_of(command: str, address: str) -> list[str]:
    """Arguments of a command; where it trains, less of everything, on a Ray that is there."""
    program, *words = shlex.split(command)
    assert program == "rlsched"
    if words[0] == "train":
        words += ["--address", address]
        words += shlex.split("--steps 128" if "--resume" in words else SHORTER)
        if "warm_start" in command:
            words += shlex.split("--set warm_start.decisions=500")
        if "priority_search" in words:
            words += shlex.split("--set search.population=4 --set search.episodes=1")
    if words[0] == "evaluate" and "--episodes" in words:
        words[words.index("--episodes") + 1] = "2"
    return words


def run(words: list[str], folder: Path, written: Path) -> None:
    """Run the command line in a folder that looks like a clone's root, with all it says in a file."""
    os.environ["COLUMNS"] = "120"
    os.chdir(folder)
    output = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    sys.exit(main(words))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run(
    page: Path, tmp_path: Path, address: str, prepared: ForkServerContext, request: pytest.FixtureRequest
) -> None:
    shutil.copytree(ROOT / "datasets", tmp_path / "datasets")
    written = tmp_path / "written.txt"
    for line in commands(page):
        if ARCHIVE.search(line):
            for file in (request.getfixturevalue("data_dir") / "swf").iterdir():
                if not (tmp_path / file.name).exists():
                    (tmp_path / file.name).symlink_to(file.resolve())
        process = prepared.Process(target=run, args=(words_of(line, address), tmp_path, written))
        process.start()
        process.join(timeout=300)
        try:
            assert process.exitcode == 0, f"{line}\n{written.read_text('utf-8')}"
        finally:
            process.kill()


def test_python_examples_run(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})

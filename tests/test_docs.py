"""Every command in README, guides and reference runs: as it stands, only shorter where it trains.

All run in this process, which has imported what takes long, and train on its one Ray; a service has a process
of its own. That `rlsched` starts as a program is tested with the command line.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import pytest

from rlsched.cli.main import main
from rlsched.learn.watchdog import watchdog
from rlsched.serve.process.ports import free_ports

ROOT = Path(__file__).parents[1]
ARCHIVE = re.compile(r"\b(lublin_256|HPC2N-2002-2\.2-cln|CTC-SP2-1996-3\.1-cln)\.swf\.gz")
SAMPLED = "--set sampling.envs_per_runner=4 --set sampling.fragment=16 "
"""What REINFORCE, which plays whole episodes, knows nothing of."""
# Less of everything a training does, and nothing else: the commands themselves stay as they are.
SHORTER = (
    f"--steps 64 {SAMPLED}--set ppo.minibatch=16 "
    "--set cocorl.fragment=16 --set cocorl.minibatch=16 "
    "--set dqn.learning_starts=0 --set rare.learning_starts=0 --set launchpad.rows=32 "
    "--set bc.rows=1024 --set marwil.rows=1024 --set cql.rows=1024 --set rare.rows=1024 "
    "--set validation.episodes=2"
)

PATIENCE_S = 300


def commands(page: Path) -> list[str]:
    """The lines of the page's sh blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


PAGES = [
    page
    for page in (
        ROOT / "README.md",
        *sorted((ROOT / "docs" / "guide").glob("*.md")),
        *sorted((ROOT / "docs" / "reference").glob("*.md")),
    )
    if commands(page)
]


class Shell:
    """Runs commands in a folder that is like a clone's root.

    Args:
        folder: where.
        address: of a Ray cluster. Each command is then a program of its own, as a user starts it, and those
            that train get --address. None: all run in this process.
    """

    def __init__(self, folder: Path, address: str | None = None) -> None:
        self.folder, self.address = folder, address
        self._service: subprocess.Popen[bytes] | None = None
        self._port = 0

    def run(self, command: str) -> tuple[int, str]:
        """The exit code, and what was said."""
        if command.startswith("curl "):
            return self._asked(shlex.split(command))
        words = self._words(command)
        if words[0] == "serve":
            return self._served(words)
        said = StringIO()
        # Minari would write into the user's home.
        places = {"MINARI_DATASETS_PATH": str(self.folder / "minari")}
        if self.address is not None:
            return self._program(words, places)
        with (
            watchdog(PATIENCE_S / 60, command),
            chdir(self.folder),
            patch.dict(os.environ, places),
            redirect_stdout(said),
            redirect_stderr(said),
        ):
            return main(words), said.getvalue()

    def _program(self, words: list[str], places: dict[str, str]) -> tuple[int, str]:
        """Run a command in a process of its own."""
        done = subprocess.run(
            [sys.executable, "-m", "rlsched", *words],
            cwd=self.folder,
            env=os.environ | places,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def _served(self, words: list[str]) -> tuple[int, str]:
        """Start a service that goes on until `close`; well if it is ready to be asked."""
        folder, told = self.folder, self.folder / "service.json"
        self._port = free_ports(1)[0]
        served = [sys.executable, "-m", "rlsched", *words, "--port", str(self._port), "--json", str(told)]
        with (folder / "service.txt").open("wb") as said:
            self._service = subprocess.Popen(
                served, cwd=folder, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
            )
        until = time.monotonic() + PATIENCE_S
        while self._service.poll() is None and not told.exists() and time.monotonic() < until:
            time.sleep(0.2)
        ready = self._service.poll() is None and told.exists()
        return 0 if ready else 1, (folder / "service.txt").read_text("utf-8", errors="replace")

    def _asked(self, words: list[str]) -> tuple[int, str]:
        """Ask the service that was started, at the port that it really has; well if it decides."""
        there = [word.replace("localhost:8000", f"localhost:{self._port}") for word in words]
        done = subprocess.run(there, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
        return 0 if '"decisions":[{' in done.stdout else 1, done.stdout + done.stderr

    def close(self) -> None:
        """End the service."""
        if self._service is not None:
            self._service.send_signal(signal.SIGINT)
            self._service.wait(timeout=PATIENCE_S)
            self._service = None

    def _words(self, command: str) -> list[str]:
        """Arguments of a command; where it trains, less of everything."""
        program, *words = shlex.split(command)
        assert program == "rlsched"
        if words[0] == "train":
            shorter = SHORTER.replace(SAMPLED, "") if "reinforce" in words else SHORTER
            words += shlex.split("--steps 128" if "--resume" in words else shorter)
            if (
                re.search(r"lublin|\.swf\.gz", command)
                and "--resume" not in words
                and "episode." not in command
            ):
                words += shlex.split("--set episode.jobs=64")  # heuristics play them, too
            if "network.lstm" in command:
                words += shlex.split("--set network.lstm_steps=8")
            if "--resume" not in words and "warm_start.decisions=0" not in command:
                words += shlex.split("--set warm_start.decisions=500")
            if "priority_search" in words:
                words += shlex.split("--set search.population=4 --set search.episodes=1")
        begins = words[0] == "tune" and "show" not in words and "--resume" not in words
        if begins and "battery" not in command:  # which trains nothing
            words += shlex.split(SHORTER.replace("--steps 64", "--set steps=64"))
            words += shlex.split("--set search.population=4 --set search.episodes=1")
        if self.address is not None and (words[0] == "train" or begins):
            words += ["--address", self.address]
        if words[0] == "evaluate" and "--episodes" in words:
            words[words.index("--episodes") + 1] = "2"
        return words


@pytest.mark.long  # half a minute to two minutes a page
@pytest.mark.slow
@pytest.mark.usefixtures("kept_ray")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    run_commands(page, Shell(tmp_path), request)


@pytest.mark.slow
@pytest.mark.long
def test_commands_of_the_readme_run_as_programs(
    tmp_path: Path, kept_ray: str, request: pytest.FixtureRequest
) -> None:
    """Each program imports what it needs, trains on the cluster of its --address, and exits."""
    run_commands(ROOT / "README.md", Shell(tmp_path, kept_ray), request)


def run_commands(page: Path, shell: Shell, request: pytest.FixtureRequest) -> None:
    """All of a page; those that read an archive's trace need the data folder."""
    for shipped in ("clusters", "datasets", "tune_configs"):
        shutil.copytree(ROOT / shipped, shell.folder / shipped)
    try:
        for line in commands(page):
            if ARCHIVE.search(line):
                for file in (request.getfixturevalue("data_dir") / "swf").iterdir():
                    if not (shell.folder / file.name).exists():
                        (shell.folder / file.name).symlink_to(file.resolve())
            code, said = shell.run(line)
            assert code == 0, f"{line}\n{said}"
    finally:
        shell.close()


def test_python_examples_run(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})

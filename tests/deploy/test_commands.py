"""Commands of `ray` and `rlsched` in shell text: only those that run are checked."""

from __future__ import annotations

import pytest

from rlsched.deploy.commands import commands_in, option


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("rlsched policies", [["rlsched", "policies"]]),
        ("set -e; ulimit -n 9; A=1 ray start --head &", [["ray", "start", "--head"]]),
        ("~/venv/bin/ray stop", [["ray", "stop"]]),
        ("rlsched train \\\n  --resume # goes on", [["rlsched", "train", "--resume"]]),
        ("if [ -e x ]; then rlsched a; else rlsched b; fi", [["rlsched", "a"], ["rlsched", "b"]]),
        ("bash -c 'rlsched a && rlsched b'", [["rlsched", "a"], ["rlsched", "b"]]),
        (
            "until ray health-check --address $A > /dev/null 2>&1; do sleep 1; done",
            [["ray", "health-check", "--address", "1"]],
        ),
        ("srun -N1 --nodelist=$head ray start --port=$((1 + 2))", [["ray", "start", "--port=1"]]),
        ('rlsched "$@" --address "${ip}:6379"', []),
        ("rlsched simulate --episodes 1 2> out", [["rlsched", "simulate", "--episodes", "1"]]),
        ("# don't rlsched\nrlsched a", [["rlsched", "a"]]),
        ("pip install ray && which ray || echo 'rlsched train'", []),
    ],
)
def test_only_commands_that_run_are_listed(text: str, commands: list[list[str]]) -> None:
    assert commands_in(text) == commands


@pytest.mark.parametrize(
    ("words", "value"),
    [("--port 1", "1"), ("--port=1", "1"), ("--block --port 1", "1"), ("--port", ""), ("--ports 1", None)],
)
def test_options_are_read_in_both_forms(words: str, value: str | None) -> None:
    assert option(words.split(), "--port") == value

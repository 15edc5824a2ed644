"""Commands inside of texts of the shell: found where they are run, parsed as they would be."""

from __future__ import annotations

import pytest

from rlsched.cli.cluster import refusal
from rlsched.deploy.commands import commands_in, option


@pytest.mark.parametrize(
    ("text", "found"),
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
        ('rlsched "$@" --address "${ip}:6379"', [["rlsched", "@@", "--address", "1:6379"]]),
        ("rlsched simulate --episodes 1 > out", [["rlsched", "simulate", "--episodes", "1"]]),
        ("# don't rlsched\nrlsched a", [["rlsched", "a"]]),
        ("cat <<'END' > x\ndon't\nrlsched a\nEND\nrlsched b", [["rlsched", "b"]]),
        ("A='\\' rlsched a", [["rlsched", "a"]]),
        ('echo "\\"" \'#\' x#y; rlsched a', [["rlsched", "a"]]),
        ("pip install ray && which ray || echo 'rlsched train'", []),
    ],
)
def test_commands_are_found_where_they_run(text: str, found: list[list[str]]) -> None:
    assert commands_in(text) == found


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("train --scenario green-10", None),
        ("tune tune_configs/horizon.yaml --address auto", None),
        ("--version", None),
        ("train --help", None),
        ("scenarios", None),
        ("dataset", "it names no command"),
        ("trian", "No such command 'trian'. Did you mean 'train', 'trace'?"),
        ("scenarios shw", "No such command 'shw'. Did you mean 'show'?"),
        ("train --resum", "No such option: --resum (Possible options: --address, --resume)"),
        ("train --minutes", "Option '--minutes' requires an argument"),
    ],
)
def test_what_rlsched_would_refuse(words: str, why: str | None) -> None:
    assert refusal(words.split()) == why


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("--port 1", "1"),
        ("--port=1", "1"),
        ("--block --port 1", "1"),
        ("--port --block", ""),
        ("--ports 1", None),
    ],
)
def test_options_are_read_in_both_forms(words: str, value: str | None) -> None:
    assert option(words.split(), "--port") == value

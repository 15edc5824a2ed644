"""Batch scripts with something wrong: each is refused with exactly these lines."""

from __future__ import annotations

import shutil

import pytest

from rlsched.cli.cluster import refusal, served
from rlsched.deploy.check import check

from .conftest import ROOT, Broken

WRONG: list[tuple[str, list[str], list[str]]] = [
    (
        "slurm.sh",
        ["#SBATCH --nodes=3", "#SBATCH --node=3"],
        ["line 3: unknown option --node; did you mean --nodes?"],
    ),
    ("slurm.sh", ["#SBATCH --nodes=3\n", ""], ["#SBATCH --nodes is missing; add --nodes=4"]),
    (
        "slurm.sh",
        ["--ntasks-per-node=1\n#SBATCH", "--ntasks-per-node=16\n#SBATCH"],
        ["#SBATCH --ntasks-per-node '16': one Ray a node uses all of its cores; use 1"],
    ),
    (
        "slurm.sh",
        ["#SBATCH --time=08:00:00", "#SBATCH --time=8h"],
        ["line 7: --time '8h'; write it as 08:00:00"],
    ),
    (
        "slurm.sh",
        ["--signal=B:TERM@300", "--signal=TERM@300"],
        ["#SBATCH --signal 'TERM@300' goes to steps, not to the script and its trap; write B:TERM@300"],
    ),
    (
        "slurm.sh",
        ["#SBATCH --cpus-per-task=16\n", ""],
        [
            (
                "neither --cpus-per-task nor --exclusive is given, so Ray would get one core; add "
                "#SBATCH --cpus-per-task=16"
            )
        ],
    ),
    (
        "slurm.sh",
        ["set -euo pipefail\n", "set -euo pipefail\n#SBATCH --qos=high\n"],
        [
            (
                "line 23: #SBATCH --qos stands after the first command (line 22), where sbatch is deaf; "
                "move it up"
            )
        ],
    ),
    (
        "slurm.sh",
        ["ray start --head --node-ip-address", "ray start --haed --node-ip-address"],
        [
            (
                "'ray start' would refuse this: No such option '--haed'. (Did you mean one of: '--head', "
                "'--help'?); see ray start --help"
            )
        ],
    ),
    (
        "slurm.sh",
        ["--block &\nsteps+=($!)\nwait_for ray", "&\nsteps+=($!)\nwait_for ray"],
        ["`ray start` without --block ends its step, and Slurm what it has started; add --block"],
    ),
    (
        "slurm.sh",
        ["    wait\n", "    wait\n    ray stop\n"],
        ["`ray stop` ends the Ray of other jobs on these nodes, too; end the steps that were started"],
    ),
    (
        "slurm.sh",
        ["export RAY_AUTH_TOKEN RAY_AUTH_MODE=token", "export RAY_AUTH_TOKEN"],
        [
            (
                "a head with a token in its ~/.ray asks all others for it, who do not know; set "
                "RAY_AUTH_MODE=token, and give all nodes the token"
            )
        ],
    ),
    (
        "slurm.sh",
        ['if [ -z "$out" ]; then', 'if [ -z "$out" ]'],
        ["line 35: syntax error near unexpected token `fi'; mend the shell"],
    ),
]


@pytest.mark.parametrize(("name", "change", "lines"), WRONG, ids=range(len(WRONG)))
def test_it_is_refused(name: str, change: list[str], lines: list[str], broken: Broken) -> None:
    assert broken(name, *change) == lines


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed (make tools)")
def test_what_shellcheck_says_is_said(broken: Broken) -> None:
    lines = broken("slurm.sh", 'if [ -z "$out" ]; then', "if [ -z $out ]; then")
    assert lines == ["line 32: Double quote to prevent globbing and word splitting. (SC2086); mend the shell"]


def test_without_shellcheck_it_is_said_that_nobody_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlsched.deploy.slurm.shutil.which", lambda name: None)
    found, problems = check(ROOT / "clusters" / "slurm.sh", refusal, served)
    assert problems == []
    assert found is not None
    assert found.unchecked == ("shellcheck, which is not installed",)

"""Run folders and a dataset that version 0.1.0 wrote (`of_0_1_0`) are read by this version.

The checkpoints of these runs are not among them: RLlib's state is restored only by a running algorithm.
"""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

import pytest
import torch

from rlsched.learn.config.training import make_config
from rlsched.learn.folder import RunFolder
from rlsched.learn.plan import resolve_run
from rlsched.offline.check import check
from rlsched.offline.manifest import read_manifest
from rlsched.scenario import load
from rlsched.settings import RenamedSettingWarning
from tests.learn.test_policy import policy_of

FOLDER = Path(__file__).parent / "of_0_1_0"


@pytest.mark.parametrize(("algo", "changed"), [("dqn", "dqn.tau"), ("appo", "appo.clip")])
def test_the_settings_of_a_run_are_read(algo: str, changed: str) -> None:
    folder = RunFolder(FOLDER / algo)
    folder.check_settings()  # they are as they were written
    with pytest.warns(RenamedSettingWarning):
        scenario, config = folder.read()
    assert (config.algo, attrgetter(changed)(config)) == (algo, 0.125)
    assert (scenario.name, scenario.episode.jobs) == ("lublin-256", 32)
    assert config.sampling.runners == {"dqn": 0, "appo": 1}[algo], "defaults are resolved"


def test_a_dataset_is_intact_and_trains() -> None:
    folder = FOLDER / "dataset"
    manifest = read_manifest(folder)
    assert check(folder, manifest) == []
    assert sum(shard.rows for shard in manifest.shards) == 126
    config = make_config({"algo": "cql", "dataset": str(folder)}, "test")
    feed, resolved = resolve_run(manifest.scenario, config)
    assert feed.scenario.decision == manifest.scenario.decision
    assert resolved.dataset == folder


@pytest.mark.parametrize(
    ("kind", "fingerprint"), [("job_scorer", "92fb8933de2d515c"), ("priority", "14c19f324802ae32")]
)
def test_fingerprints_are_as_they_were(kind: str, fingerprint: str) -> None:
    """Logs, gates and collections of datasets know a policy by it."""
    policy = policy_of(load("lublin-256").public, kind)
    with torch.no_grad():
        for value in policy.net.parameters():
            value.fill_(0.25)
    assert policy.fingerprint[:16] == fingerprint

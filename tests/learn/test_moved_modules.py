"""Checkpoints of versions whose classes were in other modules still load."""

from __future__ import annotations

import pickle
import pickletools
from pathlib import Path

import pytest
import torch

from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.config.training import TrainConfig
from rlsched.learn.rllib.engine import RllibEngine
from rlsched.scenario import Scenario

pytestmark = pytest.mark.slow

CLASSES = "class_and_ctor_args.pkl"
"""File of a checkpoint in which RLlib names the classes that wrote it."""

FORMER = b"\x80\x04crlsched.learn.module\nConstrainedModule\n."
"""Pickle of a class by the path that it had up to f23d5af."""


def modules(file: Path) -> set[str]:
    """Modules of this package that a pickle names."""
    texts = {text for _, text, _ in pickletools.genops(file.read_bytes()) if isinstance(text, str)}
    return {text for text in texts if text.startswith("rlsched.")}


def test_a_checkpoint_loads_whatever_modules_its_classes_were_in(
    small: Scenario, tiny: TrainConfig, ray_address: str, tmp_path: Path
) -> None:
    with pytest.raises(ModuleNotFoundError):
        pickle.loads(FORMER)
    feed = EpisodeFeed(small)
    config = tiny.resolve(small)
    engine = RllibEngine(config, feed, 0)
    try:
        engine.iterate()
        engine.save(tmp_path / "rllib")
        trained = engine.learned()
        policy = engine.policy()
    finally:
        engine.stop()
    pickles = list((tmp_path / "rllib").rglob("*.pkl"))
    named = [file for file in pickles if modules(file)]
    assert named
    assert {file.name for file in named} == {CLASSES}
    for file in named:
        file.write_bytes(FORMER)
    second = RllibEngine(config, feed, 1, 256)
    try:
        second.restore(tmp_path / "rllib", policy)
        restored = second.learned()
    finally:
        second.stop()
    for name, weights in trained.items():
        torch.testing.assert_close(restored[name], weights)

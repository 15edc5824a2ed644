"""A folder of seeds: runs of the same settings that differ in the seed of their training.

    runs/ppo/seed-0/ seed-1/ ...        each an ordinary run folder

`rlsched train --seeds` writes it, and so does every trial of a sweep. All its policies are compared as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_SEED = re.compile(r"seed-(\d+)")


def seed_folder(path: Path, seed: int) -> Path:
    """Folder of a seed's run."""
    return path / f"seed-{seed}"


def seed_folders(path: Path) -> dict[int, Path]:
    """Seed -> the folder of its run, in rising order; empty where a folder holds no seeds, or is none."""
    if not path.is_dir():
        return {}
    folders = {
        int(match[1]): folder
        for folder in path.iterdir()
        if (match := _SEED.fullmatch(folder.name)) is not None
    }
    return {seed: folders[seed] for seed in sorted(folders) if folders[seed].is_dir()}


def named_seeds(seeds: Iterable[int]) -> str:
    """Seeds in a sentence: seed 3, or seeds 1, 2 and 4."""
    *firsts, last = map(str, seeds)
    return f"seeds {', '.join(firsts)} and {last}" if firsts else f"seed {last}"

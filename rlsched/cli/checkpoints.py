"""Trained policies where a policy is named; torch is loaded only when one is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rlsched.errors import BadInputError
from rlsched.evaluate.seeds import named_seeds, seed_folders

if TYPE_CHECKING:
    from rlsched.learn.policy import TrainedPolicy

    BySeed = dict[int | None, TrainedPolicy]


def check_exists(
    path: str, of_orders: str = "is run with --against, or with rlsched simulate --policy"
) -> None:
    """Refuse what is no folder, before torch is loaded.

    Args:
        path: that was given.
        of_orders: what is to be said of queue orders.

    Raises:
        BadInputError: there is none.
    """
    if not Path(path).is_dir():
        from rlsched.sim.priorities import PRIORITIES

        remedy = "name a run folder, a checkpoint or an exported policy"
        if path in PRIORITIES:
            remedy = f"{path} is a queue order, which {of_orders}"
        raise BadInputError(path, "no such folder", remedy)


def loader(
    *, sample: bool = False, seed: int = 0, window: int | None = None
) -> Callable[[str], TrainedPolicy]:
    """What loads a checkpoint by its path, each once.

    Args:
        sample: draw actions from the policy's distribution.
        seed: of these draws.
        window: that it sees so many of the oldest waiting jobs; None: as many as in its training.
    """

    @cache
    def load(path: str) -> TrainedPolicy:
        check_exists(path)
        import torch

        from rlsched.learn.policy import load_policy

        if sample:
            torch.manual_seed(seed)
        policy = load_policy(Path(path), sample=sample)
        return policy if window is None else policy.seeing(window)

    return load


def seeds_loader(load: Callable[[str], TrainedPolicy]) -> Callable[[str], BySeed]:
    """What loads all policies of a folder of seeds, which are compared as one, and of any other the only one.

    Args:
        load: loads one, see `loader`.
    """

    def load_seeds(path: str) -> BySeed:
        check_exists(path)
        folders = seed_folders(Path(path))
        if not folders or _holds_policy(Path(path)):
            return {None: load(path)}
        found = {seed: str(folder) for seed, folder in folders.items() if _holds_policy(folder)}
        if not found:
            problem = f"no policy yet of {named_seeds(folders)}"
            raise BadInputError(path, problem, "train longer, or name another folder")
        return {seed: load(folder) for seed, folder in found.items()}

    return load_seeds


def _holds_policy(path: Path) -> bool:
    """Whether a policy is there, in any of the places where one may be."""
    from rlsched.learn.policy_folder import find_policy

    try:
        find_policy(path)
    except BadInputError:
        return False
    return True

"""Loading of trained policies that options name; torch is imported only then."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rlsched.errors import BadInputError
from rlsched.evaluate.seeds import named_seeds, seed_folders

if TYPE_CHECKING:
    from rlsched.learn.policy import NetworkPolicy

    BySeed = dict[int | None, NetworkPolicy]


def check_exists(
    path: str, of_heuristics: str = "is run with --against, or with rlsched simulate --policy"
) -> None:
    """Check that a folder exists, before torch is imported.

    Args:
        path: of the folder.
        of_heuristics: what to do with a heuristic instead, as a predicate.

    Raises:
        BadInputError: there is no such folder.
    """
    if not Path(path).is_dir():
        from rlsched.sim.priorities import PRIORITIES

        remedy = "name a run folder, a checkpoint or an exported policy"
        if path in PRIORITIES:
            remedy = f"{path} is a heuristic, which {of_heuristics}"
        raise BadInputError(path, "no such folder", remedy)


def loader(
    *, sample: bool = False, seed: int = 0, window: int | None = None
) -> Callable[[str], NetworkPolicy]:
    """A function that loads the policy of a path, and caches it.

    Args:
        sample: sample actions from the policy's distribution.
        seed: of the samples.
        window: number of oldest waiting jobs that it observes; None: as many as in training.
    """

    @cache
    def load(path: str) -> NetworkPolicy:
        check_exists(path)
        import torch

        from rlsched.learn.policy import load_policy

        if sample:
            torch.manual_seed(seed)
        policy = load_policy(Path(path), sample=sample)
        return policy if window is None else policy.seeing(window)

    return load


def seeds_loader(load: Callable[[str], NetworkPolicy]) -> Callable[[str], BySeed]:
    """A function that loads the policies of a path by seed; {None: policy} if it is not a folder of seeds.

    Args:
        load: loads a policy, see `loader`.
    """

    def load_seeds(path: str) -> BySeed:
        check_exists(path)
        folders = seed_folders(Path(path))
        if not folders or _holds_policy(Path(path)):
            return {None: load(path)}
        by_seed = {seed: str(folder) for seed, folder in folders.items() if _holds_policy(folder)}
        if not by_seed:
            problem = f"no policy yet of {named_seeds(folders)}"
            raise BadInputError(path, problem, "train longer, or name another folder")
        return {seed: load(folder) for seed, folder in by_seed.items()}

    return load_seeds


def _holds_policy(path: Path) -> bool:
    """Whether a folder holds a policy, in any of its usual places."""
    from rlsched.learn.policy_folder import find_policy

    try:
        find_policy(path)
    except BadInputError:
        return False
    return True

"""Minari [Younis et al. 2024]: import and export of datasets in the format of other offline RL libraries.

Observations are those of the environment with `flat=True`: the vector, the mask, and the ticks so far. So
they show the legal actions, and `recover_environment` gives an environment with equal observations. `infos`
holds `elapsed`, `action_logp` and, by name in `costs`, the cost terms: an entry of the reset, then one for
each step. The metadata of an episode name its policy as `behavior`.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from rlsched.envs.vector import observation_space
from rlsched.errors import BadInputError
from rlsched.offline.columns import values_of
from rlsched.offline.foreign import COSTS, Columns, Foreign
from rlsched.offline.manifest import Manifest
from rlsched.offline.shards import episodes_of, first_line, row_groups
from rlsched.scenario import Scenario, as_scenario
from rlsched.sim.layout import Layout
from rlsched.versions import versions

ENTRY = "rlsched.envs.env:SchedulingEnv"
OBSERVED = ("obs", "action_mask")
OF_EPISODES = (*OBSERVED, "actions", "rewards", "costs", "elapsed", "terminateds", "truncateds")
BEHAVIOR = "behavior"


def minari() -> ModuleType:
    """The package.

    Raises:
        BadInputError: it is not installed.
    """
    if find_spec("minari") is None or find_spec("h5py") is None:  # it stores in the latter
        raise BadInputError(
            "minari", "is not installed", "install it: pip install 'rlsched[minari]' (or name a Parquet file)"
        )
    return import_module("minari")


class MinariEpisodes:
    """Episodes of a Minari dataset of our environments, one in memory at a time.

    Args:
        name: of the dataset, as `minari list local` shows it.

    Attributes:
        rows: of all episodes.
        vectors: False: observations are flat.

    Raises:
        BadInputError: there is none, or its observations are no vectors.
    """

    vectors = False

    def __init__(self, name: str) -> None:
        package = minari()
        try:
            self._storage = package.load_dataset(name).storage
        except (FileNotFoundError, ValueError, OSError) as error:
            problem = f"is neither a file, nor a folder, nor a Minari dataset ({first_line(error)})"
            raise BadInputError(name, problem, "see minari list local, or MINARI_DATASETS_PATH") from None
        self.name = name
        metadata = self._storage.metadata
        self.rows = int(metadata["total_steps"])
        space = self._storage.observation_space
        if space.shape is None or len(space.shape) != 1:
            problem = f"shows {type(space).__name__} observations, not vectors"
            raise BadInputError(name, problem, "record an environment that was made with flat=True")
        self._spec = metadata.get("env_spec")

    @property
    def scenario(self) -> Scenario | None:
        """Scenario of its environment; None: the environment is another one, or not named.

        Raises:
            BadInputError: it is named, and is not there.
        """
        return _scenario(self._spec)

    def __iter__(self) -> Iterator[Foreign]:
        """Episode by episode."""
        for number in range(self._storage.total_episodes):
            try:
                (episode,) = self._storage.get_episodes([number])
                (about,) = self._storage.get_episode_metadata([number])
            except (OSError, KeyError) as error:
                problem = f"episode {number} is damaged ({first_line(error)})"
                raise BadInputError(self.name, problem, "fetch it again") from None
            count = len(episode["rewards"])
            if count:
                where = f"{self.name}, episode {number}"
                columns = _columns(episode, count)
                behavior = about.get(BEHAVIOR)
                yield Foreign(where, np.arange(count), None if behavior is None else str(behavior), columns)


def _columns(episode: dict[str, Any], count: int) -> Columns:
    """Convert an episode to our columns; it has one observation more than actions."""
    columns: Columns = {
        "obs": episode["observations"][:-1],
        "new_obs": episode["observations"][1:],
        "actions": episode["actions"],
        "rewards": episode["rewards"],
        "terminateds": episode["terminations"],
        "truncateds": episode["truncations"],
    }
    infos = episode["infos"] or {}
    if "action_mask" in infos:
        columns["action_mask"], columns["new_action_mask"] = (
            infos["action_mask"][:-1],
            infos["action_mask"][1:],
        )
    for name in ("elapsed", "action_logp"):
        if name in infos:
            columns[name] = infos[name][1:]
    for name, values in infos.get("costs", {}).items():
        columns[COSTS + name] = values[1:]
    return columns


def _scenario(spec: str | None) -> Scenario | None:
    if spec is None:
        return None
    made = EnvSpec.from_json(spec)
    settings = made.kwargs.get("scenario")
    if settings is None or made.entry_point != ENTRY:
        return None
    return as_scenario(settings)


def export_minari(
    folder: Path, manifest: Manifest, name: str, progress: Callable[[int], None] = lambda rows: None
) -> Path:
    """Write a dataset for Minari, shard after shard.

    Args:
        folder: of our dataset.
        manifest: of it.
        name: of theirs, as in `rlsched/green-10/mixed-v0`.
        progress: called with rows that have been written.

    Returns:
        Where it lies.

    Raises:
        BadInputError: there is such a dataset already, the name is none, or a shard is damaged.
        OSError: the disk is full or gone.
    """
    package = minari()
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.storage.datasets_root_dir import get_dataset_path

    try:
        parse_dataset_id(name)
    except (ValueError, TypeError):
        problem = f"value {name!r} is no name of a Minari dataset"
        raise BadInputError("--minari", problem, "write one as in rlsched/mixed-v0") from None
    place = Path(get_dataset_path(name))
    if place.exists():
        problem = f"value {name!r} is there already ({place})"
        raise BadInputError("--minari", problem, "name another version, or minari delete it")
    scenario = manifest.scenario
    layout = Layout.of(scenario.observation, scenario.decision, len(scenario.cluster.resources))
    spec = EnvSpec(
        id=f"rlsched/{scenario.name}",
        entry_point=ENTRY,
        kwargs={"scenario": scenario.model_dump(mode="json"), "flat": True},
        disable_env_checker=True,
    )
    behaviors: list[str] = []
    with ExitStack() as stack, warnings.catch_warnings():
        stack.callback(shutil.rmtree, place, ignore_errors=True)  # half a dataset would look like one
        warnings.filterwarnings("ignore", module=r"minari\.")  # no author is named, no other environment
        made = package.create_dataset_from_buffers(
            dataset_id=name,
            buffer=_buffers(folder, manifest, behaviors, progress),
            env=spec,
            algorithm_name=", ".join(behavior.behavior for behavior in manifest.behaviors),
            description=f"Decisions on {scenario.name}, {manifest.origin}.",
            observation_space=observation_space(layout, flat=True),
            requirements=[f"rlsched=={versions(('rlsched',))['rlsched']}"],
        )
        made.storage.update_episode_metadata([{BEHAVIOR: behavior} for behavior in behaviors])
        stack.pop_all()  # the dataset is whole
    return place


def _buffers(
    folder: Path, manifest: Manifest, behaviors: list[str], progress: Callable[[int], None]
) -> Iterator[Any]:
    """Yield episodes in Minari's form, each with its behavior policy."""
    from minari.data_collector import EpisodeBuffer

    for shard in manifest.shards:
        path = folder / shard.file
        entries = [entry for entry in episodes_of(path) if entry.rows]
        rows = _rows(path)
        starts = {name: k for k, name in enumerate(rows["eps_id"])}
        for entry in entries:
            at = np.flatnonzero(rows["episode"] == starts[entry.eps_id])
            columns = {name: rows[name][at] for name in OF_EPISODES}
            last = {name: rows[f"new_{name}"][starts[entry.eps_id]] for name in OBSERVED}
            infos = {"elapsed": _after_reset(columns["elapsed"])}
            if manifest.chances:
                infos["action_logp"] = _after_reset(rows["action_logp"][at])
            costs = {
                name: _after_reset(columns["costs"][:, k]) for k, name in enumerate(manifest.shape.costs)
            }
            behaviors.append(entry.behavior)
            yield EpisodeBuffer(
                observations=_flat(columns, last),
                actions=columns["actions"],
                rewards=columns["rewards"],
                terminations=columns["terminateds"],
                truncations=columns["truncateds"],
                infos=infos | ({"costs": costs} if costs else {}),
            )
            progress(entry.rows)


def _rows(path: Path) -> dict[str, Any]:
    """The columns of a shard, and of its episodes what was seen at the end.

    `eps_id` names the episodes, `episode` says which of them a row is of.
    """
    tables, ends = [], []
    for rows in row_groups(path):
        ends.append(rows.filter(pc.or_(rows["terminateds"], rows["truncateds"])))
        tables.append(rows.drop_columns(["new_obs", "new_action_mask", "behavior", "t"]))
    table, last = pa.concat_tables(tables), pa.concat_tables(ends)
    names = last["eps_id"].to_pylist()
    episode = pc.index_in(table["eps_id"], pa.array(names)).to_numpy()
    columns = {name: values_of(table, name) for name in (*OF_EPISODES, "action_logp")}
    columns |= {f"new_{name}": values_of(last, f"new_{name}") for name in OBSERVED}
    return {"eps_id": names, "episode": episode, **columns}


def _flat(columns: Columns, last: Columns) -> NDArray[np.float32]:
    """(rows + 1, width) observations as a flat environment shows them."""
    obs = np.concatenate([columns["obs"], last["obs"][None]])
    mask = np.concatenate([columns["action_mask"], last["action_mask"][None]])
    clock = np.concatenate([[0], np.cumsum(columns["elapsed"])])
    return np.concatenate([obs, mask, clock[:, None]], axis=1, dtype=np.float32, casting="unsafe")


def _after_reset(values: NDArray[Any]) -> NDArray[Any]:
    """Prepend an entry of 0, which is of the reset."""
    return np.concatenate([np.zeros(1, values.dtype), values])

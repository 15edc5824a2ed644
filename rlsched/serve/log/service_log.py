"""The folder of a service log: a journal of all states, and a dataset for each version of each policy.

serve.yaml versions.json     settings and versions of the service
journal-00000.jsonl ...      every state and the answer about it
NAME-VERSION/                the decisions as a dataset, see `dataset`
"""

from __future__ import annotations

import logging
import queue
import threading
from pathlib import Path

from rlsched.errors import BadInputError
from rlsched.files import write_whole
from rlsched.serve.decide.policy_store import VERSION_DIGITS, describe_policies, load_for_service
from rlsched.serve.ledger.records import Record
from rlsched.serve.log.dataset import LogDataset
from rlsched.serve.log.journal import Journal
from rlsched.serve.settings import ServeConfig
from rlsched.settings_files import as_json, as_yaml
from rlsched.versions import versions

LOG = logging.getLogger("ray.serve")

PACKAGES = ("rlsched", "ray", "torch", "numpy", "numba", "pyarrow")
POLICIES = "policies.json"
MAX_WAITING = 50_000  # records that wait to be written


class ServiceLog:
    """Writes all records in a thread; it counts records that cannot be written, and never stops the service.

    Args:
        config: settings of the service.
        folder: of the log.

    Attributes:
        lost: records that are missing in the journal or in a dataset.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(self, config: ServeConfig, folder: Path) -> None:
        self._config, self._folder = config, folder
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "serve.yaml", as_yaml(config))
        write_whole(folder / "versions.json", as_json(versions(PACKAGES)))
        policies = {name: load_for_service(name, path, config) for name, path in config.policies.items()}
        write_whole(folder / POLICIES, as_json({"policies": describe_policies(policies)}))
        self._journal = Journal(folder)
        self._datasets: dict[tuple[str, str], LogDataset | None] = {}
        self._queue: queue.Queue[list[Record] | None] = queue.Queue()
        self.lost = self._waiting = 0
        self._counting = threading.Lock()  # between the callers and the writing thread
        self._thread = threading.Thread(target=self._write_queue, name="rlsched-log", daemon=True)
        self._thread.start()

    def add(self, records: list[Record]) -> None:
        """Queue some records; never waits."""
        with self._counting:
            if self._waiting >= MAX_WAITING:
                self.lost += len(records)
                return
            self._waiting += len(records)
        self._queue.put(records)

    def _write_queue(self) -> None:
        while (records := self._queue.get()) is not None:
            with self._counting:
                self._waiting -= len(records)
            try:
                self._journal.add(records)
            except OSError as error:
                self._count_lost(len(records))
                LOG.error("%d states are not in the journal: %s", len(records), error)
            for record in records:
                try:
                    self._write(record)
                except Exception:  # whatever the error, the next records are written
                    self._count_lost(1)
                    LOG.exception("a state of %s is not in the dataset", record.state.cluster)

    def _count_lost(self, records: int) -> None:
        with self._counting:
            self.lost += records

    def _write(self, record: Record) -> None:
        key = (record.policy, record.version)
        if key not in self._datasets:
            self._datasets[key] = self._open(*key)
        dataset = self._datasets[key]
        if dataset is not None:
            dataset.add(record)

    def _open(self, name: str, version: str) -> LogDataset | None:
        """The dataset of a version; None if its policy has been replaced or cannot be loaded."""
        try:
            loaded = load_for_service(name, self._config.policies[name], self._config)
            if loaded.version != version:
                LOG.error("%s %s is there no more: its decisions are in the journal only", name, version)
                return None
            folder = self._folder / f"{name}-{version[: VERSION_DIGITS // 2]}"
            inference = loaded.inference
            return LogDataset(folder, loaded.policy, inference.units.tolist(), inference.heuristic)
        except (BadInputError, KeyError) as error:
            LOG.error("decisions of %s are in the journal only: %s", name, error)
            return None

    def close(self) -> None:
        """Write all waiting records.

        Raises:
            OSError: the disk is full or gone.
        """
        self._queue.put(None)
        self._thread.join()
        self._journal.close()
        for dataset in self._datasets.values():
            if dataset is not None:
                dataset.close()

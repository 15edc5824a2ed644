"""The folder of a service log: a journal of all states, and a dataset for each version of each policy.

serve.yaml versions.json     settings and versions of the service
journal-00000.jsonl ...      every state and the answer about it
NAME-VERSION/                the decisions as a dataset, see `dataset`
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from rlsched.errors import BadInputError
from rlsched.files import write_whole
from rlsched.serve.decide.policy_store import VERSION_DIGITS, describe_policies, load_for_service
from rlsched.serve.ledger.ledger import Ledger, PageData
from rlsched.serve.ledger.records import ClusterRecords, Record, StoredRecord
from rlsched.serve.log.dataset import LogDataset
from rlsched.serve.settings import ServeConfig
from rlsched.settings_files import as_json, as_yaml
from rlsched.versions import versions

LOG = logging.getLogger("ray.serve")

PACKAGES = ("rlsched", "ray", "torch", "numpy", "numba", "pyarrow")
POLICIES = "policies.json"
MAX_WAITING = 50_000  # records that wait to be written

JOURNALS = "journal-*.jsonl"
FILE_BYTES = 64 << 20  # size at which the next file begins
PAGE_RECORDS = 2000  # newest records of a journal that a page shows


class ServiceLog:
    """Writes all records in a thread; it counts records that cannot be written, and never stops the service.

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
        self.lost = self._waiting = 0  # lost: missing in the journal or in a dataset
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
            return LogDataset(folder, loaded.inference)
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


class Journal:
    """Writes lines into new files of a folder; a killed process leaves at most half of the last line."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._number = 1 + max((_number(path) for path in folder.glob(JOURNALS)), default=-1)
        self._file = self._path().open("ab")
        self._encoder = msgspec.json.Encoder()

    def _path(self) -> Path:
        return self._folder / f"journal-{self._number:05d}.jsonl"

    def add(self, records: Iterable[Record]) -> None:
        """Write some records.

        Raises:
            OSError: the disk is full or gone.
        """
        begin = self._file.tell()
        try:
            self._file.write(b"".join(self._encoder.encode(record) + b"\n" for record in records))
            self._file.flush()
        except OSError:
            self._truncate(begin)
            raise
        if self._file.tell() >= FILE_BYTES:
            self._file.close()
            self._number += 1
            self._file = self._path().open("ab")

    def _truncate(self, size: int) -> None:
        """Remove half a line: the next one would continue it."""
        self._file.detach().close()  # without the rest of its buffer
        os.truncate(self._path(), size)
        self._file = self._path().open("ab")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _number(path: Path) -> int:
    digits = path.stem.partition("-")[2]
    return int(digits) if digits.isdigit() else -1


def read_journal(folder: Path, cluster: str | None = None) -> PageData:
    """Read the newest records for the page of a cluster; None: of the newest one.

    Raises:
        BadInputError: there is no journal, or a line is damaged.
    """
    paths = sorted(folder.glob(JOURNALS), key=_number)
    if not paths:
        remedy = "name the folder of rlsched serve --log"
        raise BadInputError(str(folder), "holds no journal", remedy)
    ledger = Ledger()
    for record in _newest(paths):
        records = ClusterRecords[Record]()
        records.count(record.answer)
        records.records.append(record)
        ledger.add("journal", [], {record.state.cluster: records})
    return ledger.page_data(cluster)


def _newest(paths: list[Path]) -> Iterator[Record]:
    """The newest records, the oldest of them first."""
    decoder = msgspec.json.Decoder(StoredRecord)
    lines: list[tuple[Path, int, bytes]] = []
    for path in reversed(paths):
        complete = path.read_bytes().split(b"\n")[:-1]  # text after the last newline is half a line
        lines = [(path, k, line) for k, line in enumerate(complete, start=1)][-PAGE_RECORDS:] + lines
        if len(lines) >= PAGE_RECORDS:
            break
    for path, number, line in lines[-PAGE_RECORDS:]:
        try:
            record = decoder.decode(line)
        except msgspec.MsgspecError as error:
            problem = f"line {number} is damaged ({error})"
            raise BadInputError(str(path), problem, "remove the line, or the file") from None
        yield record

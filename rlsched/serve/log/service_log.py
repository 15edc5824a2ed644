"""The folder of a service's log: a journal of all states, and a dataset for every version of every policy.

serve.yaml versions.json     what was served, with what
journal-00000.jsonl ...      every state and what was decided about it
NAME-VERSION/                the decisions as a dataset, see `dataset`
"""

from __future__ import annotations

import logging
import queue
import threading
from pathlib import Path

from rlsched.errors import BadInputError
from rlsched.files import write_whole
from rlsched.serve.decide.engine import VERSION_DIGITS, by_name, load_served
from rlsched.serve.ledger.ledger import Noted
from rlsched.serve.log.dataset import Logbook
from rlsched.serve.log.journal import Journal
from rlsched.serve.settings import ServeConfig
from rlsched.settings_files import as_json, as_yaml
from rlsched.versions import versions

LOG = logging.getLogger("ray.serve")

PACKAGES = ("rlsched", "ray", "torch", "numpy", "numba", "pyarrow")
POLICIES = "policies.json"
WAITING = 50_000
"""States that wait to be written at most."""


class ServiceLog:
    """Writes all of it, in a thread of its own; what cannot be written is counted, and serving goes on.

    Args:
        config: what is served, with a log.
        folder: of the log.

    Attributes:
        lost: states that are missing in the journal or in a dataset.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(self, config: ServeConfig, folder: Path) -> None:
        self._config, self._folder = config, folder
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "serve.yaml", as_yaml(config))
        write_whole(folder / "versions.json", as_json(versions(PACKAGES)))
        served = {name: load_served(name, path, config) for name, path in config.policies.items()}
        write_whole(folder / POLICIES, as_json({"policies": by_name(served)}))
        self._journal = Journal(folder)
        self._books: dict[tuple[str, str], Logbook | None] = {}
        self._queue: queue.Queue[list[Noted] | None] = queue.Queue()
        self.lost = self._waiting = 0
        self._counting = threading.Lock()  # of who brings states and who writes them
        self._thread = threading.Thread(target=self._write_on, name="rlsched-log", daemon=True)
        self._thread.start()

    def take(self, noted: list[Noted]) -> None:
        """Have some states written; never waits."""
        with self._counting:
            if self._waiting >= WAITING:
                self.lost += len(noted)
                return
            self._waiting += len(noted)
        self._queue.put(noted)

    def _write_on(self) -> None:
        while (some := self._queue.get()) is not None:
            with self._counting:
                self._waiting -= len(some)
            try:
                self._journal.take(some)
            except OSError as error:
                self._miss(len(some))
                LOG.error("%d states are not in the journal: %s", len(some), error)
            for one in some:
                try:
                    self._write(one)
                except Exception:  # whatever is wrong with one, the others are to be written
                    self._miss(1)
                    LOG.exception("a state of %s is not in the dataset", one.state.cluster)

    def _miss(self, states: int) -> None:
        with self._counting:
            self.lost += states

    def _write(self, noted: Noted) -> None:
        key = (noted.policy, noted.version)
        if key not in self._books:
            self._books[key] = self._open(*key)
        book = self._books[key]
        if book is not None:
            book.take(noted)

    def _open(self, name: str, version: str) -> Logbook | None:
        """The dataset of a version, if it is the one that is there now."""
        try:
            served = load_served(name, self._config.policies[name], self._config)
            if served.version != version:
                LOG.error("%s %s is there no more: its decisions are in the journal only", name, version)
                return None
            place = self._folder / f"{name}-{version[: VERSION_DIGITS // 2]}"
            units = served.decider.units.tolist()
            return Logbook(place, served.policy, units, served.decider.heuristic)
        except (BadInputError, KeyError) as error:
            LOG.error("decisions of %s are in the journal only: %s", name, error)
            return None

    def close(self) -> None:
        """Write down what waits.

        Raises:
            OSError: the disk is full or gone.
        """
        self._queue.put(None)
        self._thread.join()
        self._journal.close()
        for book in self._books.values():
            if book is not None:
                book.close()

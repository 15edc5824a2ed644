"""The service log: journal and datasets, with damaged states, full disks and clocks that jump."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rlsched.errors import BadInputError
from rlsched.offline.check import check
from rlsched.offline.manifest import read_manifest
from rlsched.serve.api.schema import (
    BatchRequest,
    DecisionRequest,
)
from rlsched.serve.ledger.records import (
    Record,
)
from rlsched.serve.log.dataset import LogDataset
from rlsched.serve.log.service_log import Journal, ServiceLog, read_journal
from rlsched.serve.settings import ServeConfig

from .service import Service


@pytest.fixture
def service(hpc: Path) -> Iterator[Service]:
    service = Service(hpc)
    yield service
    service.close()


def records_of(service: Service, folder: Path, count: int) -> list[Record]:
    served = service.store.find(None)
    states = [
        DecisionRequest(**{**as_request(folder), "now": as_request(folder)["now"] + k}) for k in range(count)
    ]
    answers = served.decide([BatchRequest(states=[*states])], explain=True)
    pairs = zip(states, answers, strict=True)
    return [
        Record(time.time(), served.identity.name, served.version, state, answer) for state, answer in pairs
    ]


def as_request(folder: Path) -> dict[str, Any]:
    request = msgspec.json.decode((folder / "example.json").read_bytes(), type=DecisionRequest)
    return {name: getattr(request, name) for name in request.__struct_fields__}


def test_a_log_is_a_journal_and_a_dataset(service: Service, hpc: Path, tmp_path: Path) -> None:
    config = ServeConfig.model_validate({"policies": hpc, "log": tmp_path / "log"})
    log = ServiceLog(config, tmp_path / "log")
    log.add(records_of(service, hpc, 20))
    log.close()
    displayed = read_journal(tmp_path / "log")
    assert (displayed.cluster, displayed.recent.states, len(displayed.recent.records)) == ("default", 20, 20)
    (dataset,) = [path for path in (tmp_path / "log").iterdir() if path.is_dir()]
    assert dataset.name == f"default-{service.store.find(None).version[:8]}"
    assert (dataset / "dataset.json").exists()
    assert json.loads((tmp_path / "log" / "policies.json").read_text())["policies"][0]["name"] == "default"


def test_a_journal_that_was_cut_short_is_read_to_its_last_line(
    service: Service, hpc: Path, tmp_path: Path
) -> None:
    journal = Journal(tmp_path)
    journal.add(records_of(service, hpc, 5))
    journal.close()
    file = tmp_path / "journal-00000.jsonl"
    file.write_bytes(file.read_bytes()[:-10])
    assert read_journal(tmp_path).recent.states == 4
    second = Journal(tmp_path)
    second.add(records_of(service, hpc, 2))
    second.close()
    assert read_journal(tmp_path).recent.states == 6
    file.write_bytes(b"{}\n" + file.read_bytes())
    with pytest.raises(BadInputError, match=r"journal-00000\.jsonl: line 1 is damaged"):
        read_journal(tmp_path)
    with pytest.raises(BadInputError, match="holds no journal"):
        read_journal(hpc)


def test_a_full_disk_leaves_a_journal_that_can_be_read(
    service: Service, hpc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = records_of(service, hpc, 3)
    journal = Journal(tmp_path)
    journal.add(some)
    file = journal._file

    class Full:
        """Writes half of it, and then there is no room."""

        def write(self, content: bytes) -> int:
            file.write(content[: len(content) // 2])
            file.flush()
            raise OSError("disk full")

        def __getattr__(self, name: str) -> Any:
            return getattr(file, name)

    monkeypatch.setattr(journal, "_file", Full())
    with pytest.raises(OSError, match="disk full"):
        journal.add(some)
    journal.add(some)
    journal.close()
    assert read_journal(tmp_path).recent.states == 6


def test_a_state_that_cannot_be_written_is_counted(service: Service, hpc: Path, tmp_path: Path) -> None:
    log = ServiceLog(ServeConfig.model_validate({"policies": hpc, "log": tmp_path}), tmp_path)
    some = records_of(service, hpc, 6)
    odd = msgspec.structs.replace(some[2], state=msgspec.structs.replace(some[2].state, units=[1, 1]))
    log.add([*some[:3], odd, *some[3:]])
    log.close()
    assert log.lost == 1
    assert read_journal(tmp_path).recent.states == 7


def test_clocks_that_jump_end_an_episode(service: Service, hpc: Path, tmp_path: Path) -> None:
    served = service.store.find(None)
    dataset_of = LogDataset(tmp_path / "b", served.inference)
    some = records_of(service, hpc, 4)
    later = [
        msgspec.structs.replace(item, state=msgspec.structs.replace(item.state, now=item.state.now + 2**34))
        for item in some
    ]
    for item in (*some, *later, *some):
        dataset_of.add(item)
    for k in range(100):
        named = msgspec.structs.replace(some[0].state, cluster=f"c{k}")
        dataset_of.add(msgspec.structs.replace(some[0], state=named))
    assert len(dataset_of.builder._streams) == 64
    dataset_of.close()
    manifest = read_manifest(tmp_path / "b")
    assert check(tmp_path / "b", manifest) == []
    assert manifest.episodes >= 3

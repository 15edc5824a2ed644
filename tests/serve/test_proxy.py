"""What Serve knows of HAProxy, changed: its configuration, and what becomes of one that dies."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import tempfile
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from ray import NodeID
from ray.serve import _private as haproxy_package
from ray.serve._private import haproxy
from ray.serve._private.haproxy import HAProxyApi, HAProxyConfig
from ray.serve.config import HTTPOptions

from rlsched.errors import BadInputError
from rlsched.serve.process import launch, listener, proxy
from rlsched.serve.process.proxy import hardened, keep_running

TEMPLATES = "ray.serve._private.haproxy_templates"


def original() -> str:
    """The template as Ray has it: this process may have imported it changed."""
    spec = PathFinder.find_spec(TEMPLATES, haproxy_package.__path__)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    template: str = module.HAPROXY_CONFIG_TEMPLATE
    return template


def test_the_configuration_is_whole(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As HAProxy reads it, with this version of Ray."""
    monkeypatch.setenv(proxy.REQUEST_TIMEOUT_S, "4")
    monkeypatch.setenv(proxy.BATCH_TIMEOUT_S, "18")
    monkeypatch.setattr(haproxy, "HAPROXY_CONFIG_TEMPLATE", hardened(original()))
    config = HAProxyConfig(
        socket_path=str(tmp_path / "s" / "admin.sock"),
        http_options=HTTPOptions(host="127.0.0.1", port=8123),
        stats_port=8124,
        metrics_port=8125,
    )
    api = HAProxyApi(config, config_file_path=str(tmp_path / "c" / "haproxy.cfg"))
    server = haproxy.ServerConfig("replica", "127.0.0.1", 8126)
    api.set_backend_configs(
        {"rlsched": haproxy.BackendConfig(name="rlsched", path_prefix="/", servers=[server])}
    )
    file = tmp_path / "c" / "haproxy.cfg"
    api._generate_config_file_internal()
    lines = [line.strip() for line in file.read_text().splitlines()]
    assert [line for line in lines if line.startswith("bind ")] == [
        "bind 127.0.0.1:8125",
        'bind "fd@${RLSCHED_LISTENER}"',
        "bind 127.0.0.1:8124",
    ]
    assert "option http-buffer-request" in lines
    assert "timeout http-request 5s" in lines
    assert "http-request set-timeout server 4s if { path /v1/decisions }" in lines
    assert "http-request set-timeout server 18s if { path /v1/decisions:batch }" in lines
    assert "acl routes path,url_dec -i /-/routes" in lines
    assert not [line for line in lines if line.startswith("errorfile")]
    assert [line for line in lines if "retry-after 1" in line and "503" in line]
    with listener.opened("127.0.0.1", 0) as arguments:
        monkeypatch.setenv(proxy.LISTENER, str(arguments.fileno()))
        checked = asyncio.run(_checked(str(file), arguments.fileno()))
        assert checked[0] == 0, checked[1]
        # Before the first replica is there, requests wait in the socket.
        config.has_received_servers = False
        HAProxyApi(config, config_file_path=str(file))._generate_config_file_internal()
        assert "RLSCHED_LISTENER" not in file.read_text()
        checked = asyncio.run(_checked(str(file), arguments.fileno()))
        assert checked[0] == 0, checked[1]


async def _checked(file: str, descriptor: int) -> tuple[int | None, str]:
    """What HAProxy says of a configuration."""
    process = await asyncio.create_subprocess_exec(
        haproxy.get_haproxy_binary(),
        "-c",
        "-f",
        file,
        stderr=asyncio.subprocess.PIPE,
        pass_fds=[descriptor],
    )
    _, output = await process.communicate()
    return process.returncode, output.decode()


def test_paths_of_sockets_are_short_enough_for_haproxy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its files are in a folder that is named by the node, below the one of a service."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = launch.folder_of_sockets()
    node = folder / NodeID.from_random().hex()
    try:
        assert folder.parent == Path("/tmp")
        file = tmp_path / "haproxy.cfg"
        file.write_text(f"global\n    stats socket {node}/{'x' * len('admin.sock')}\n")
        assert asyncio.run(_checked(str(file), 0)) == (0, "")
    finally:
        folder.rmdir()
    monkeypatch.setattr(launch, "MAX_FOLDER", 3)
    with pytest.raises(BadInputError, match=r"TMPDIR: .* is too long for HAProxy: .* shorter folder"):
        launch.folder_of_sockets()


def test_another_template_is_refused() -> None:
    with pytest.raises(RuntimeError, match="configures HAProxy otherwise"):
        hardened("global\n")


class Api:
    """As `HAProxyApi`, without an HAProxy."""

    watched: ClassVar[list[tuple[int, int]]] = []
    module: ClassVar[SimpleNamespace]

    def __init__(self, remaining: int | None = None) -> None:
        self._proc = SimpleNamespace(returncode=None)
        self.backend_configs: dict[str, Any] = {}
        self.previous, self.launched = remaining, list[tuple[str, ...]]()
        self.watched.clear()
        self.cfg = SimpleNamespace(socket_path="socket")
        self.generated = 0

    def _generate_config_file_internal(self) -> None:
        self.generated += 1

    async def _get_running_pid(self) -> int | None:
        return self.previous

    async def _start_and_wait_for_haproxy(self, *arguments: str) -> Any:
        self.launched.append(arguments)
        return await self.module.asyncio.create_subprocess_exec("haproxy")

    async def is_running(self) -> bool:
        return self._proc.returncode is None


@pytest.fixture
def patched_api(monkeypatch: pytest.MonkeyPatch) -> type[Api]:
    class PatchedApi(Api):
        """Changed, as Serve's is."""

    async def spy(node: int, process: int) -> None:
        PatchedApi.watched.append((node, process))

    async def launched(*command: str, **settings: Any) -> Any:
        return SimpleNamespace(returncode=None, pid=1000)

    monkeypatch.setattr(proxy, "_by_itself", launched)
    monkeypatch.setattr(proxy, "end_with_node", spy)
    monkeypatch.setattr(listener, "received", lambda path: socket.socket())
    monkeypatch.setenv(proxy.LISTENER_PATH, "path")
    monkeypatch.setenv(proxy.LISTENER, "")
    PatchedApi.module = SimpleNamespace(HAProxyApi=PatchedApi)
    keep_running(PatchedApi.module)
    return PatchedApi


def test_one_that_has_died_is_started_again(patched_api: type[Api]) -> None:
    async def scene() -> None:
        api = patched_api()
        assert await api.is_running()
        assert api.launched == []
        api._proc.returncode = -9
        assert await api.is_running()
        assert api.launched == [()]

    asyncio.run(scene())


def test_a_new_manager_takes_over_once_it_knows_the_replicas(patched_api: type[Api]) -> None:
    async def scene() -> None:
        api = patched_api(remaining=17)
        starting = asyncio.create_task(api._start_and_wait_for_haproxy())
        await asyncio.sleep(3 * proxy.LOOK_S)
        assert api.launched == []
        api.backend_configs = {"replicas": None}
        await starting
        assert (api.launched, api.generated) == ([("-sf", "17", "-x", "socket")], 1)
        await api._start_and_wait_for_haproxy("-sf", "17")  # as Serve reloads
        assert api.launched[1:] == [("-sf", "17", "-x", "socket")]

    asyncio.run(scene())


def test_who_finds_nobody_starts_at_once(patched_api: type[Api]) -> None:
    async def scene() -> None:
        api = patched_api()
        await api._start_and_wait_for_haproxy()
        assert (api.launched, api.generated, api.watched) == ([()], 0, [(os.getppid(), 1000)])

    asyncio.run(scene())


@pytest.mark.parametrize("goes", ["node", "process"])
def test_it_ends_with_its_node(goes: str) -> None:
    """And who watches over it ends when either does."""
    node, process = (subprocess.Popen(["sleep", "60"]) for _ in range(2))
    watch = subprocess.Popen(["sh", "-c", proxy.END_WITH, "sh", str(node.pid), str(process.pid)])
    try:
        (node if goes == "node" else process).kill()
        (node if goes == "node" else process).wait()
        watch.wait(timeout=30)
        if goes == "node":
            assert process.wait(timeout=30) == -signal.SIGUSR1
        else:
            assert node.poll() is None
    finally:
        for item in (node, process, watch):
            item.kill()
            item.wait()

"""HAProxy before the replicas: changes to Ray Serve's configuration for slow clients and dying processes.

Serve writes HAProxy's configuration from a template, in which an idle client may stay for an hour and
every client sees statistics. Few of these are settings, so the template is changed when Serve's processes
import it (`lean_imports`). A version of Ray with another template is refused, instead of a partial change.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rlsched.serve.process import listener

LISTENER = "RLSCHED_LISTENER"
"""Environment variable: descriptor of the socket at which HAProxy takes connections."""

LISTENER_PATH = "RLSCHED_LISTENER_AT"
"""Environment variable: path of the Unix socket at which `rlsched serve` shares that socket."""

REQUEST_TIMEOUT_S, BATCH_TIMEOUT_S = "RLSCHED_ONE_ANSWER_S", "RLSCHED_MANY_ANSWERS_S"
"""Environment variables: seconds that a replica may take over a request of one cluster, and of many."""

REQUEST_S, IDLE_S = 5, 15
"""Seconds for the headers of a request and as much of its body as HAProxy holds, and between requests."""

END_WITH = '(while kill -0 "$1"; do kill -0 "$2" || exit; sleep 1; done; kill -USR1 "$2") 2>/dev/null'
"""Ends HAProxy, after its requests, when another process is gone: the raylet, the parent of its manager."""

TAKEOVER_S, LOOK_S = 5.0, 0.05
"""Longest wait of a new manager for its replicas while the previous HAProxy answers; time between looks."""

COMMAND_S, LAST_S = 1.0, 1.0  # longest time for HAProxy's answer to a command, and for its last requests


def _refusal(status: int, problem: str) -> str:
    """Arguments of a refusal by HAProxy, in the form of replicas' refusals."""
    body = json.dumps({"error": problem}).replace("\\", "\\\\").replace("'", "\\'")
    later = " hdr retry-after 1" if status != 404 else ""
    return f"status {status} content-type application/json string '{body}'{later}"


AWAY = "no replica answers; ask again later"

ERROR_FILES = "".join(
    f"    errorfile {status} {{{{ config.error_file_path }}}}\n" for status in (502, 503, 504)
)

REUSE = "    # Enable HTTP connection reuse for better performance\n    http-reuse always\n"

CHANGES = (
    # A client must send as much as HAProxy buffers in time, before a replica gets the request.
    ("    option httplog\n", "    option httplog\n    option http-buffer-request\n"),
    (
        "    {% if config.timeout_http_request_s is not none %}timeout http-request "
        "{{ config.timeout_http_request_s }}s{% endif %}\n"
        "    {% if config.timeout_http_keep_alive_s is not none %}timeout http-keep-alive "
        "{{ config.timeout_http_keep_alive_s }}s{% endif %}\n",
        f"    timeout http-request {REQUEST_S}s\n    timeout http-keep-alive {IDLE_S}s\n",
    ),
    (
        "    {%- if backend.timeout_http_keep_alive_s is not none %}\n"
        "    timeout http-keep-alive {{ backend.timeout_http_keep_alive_s }}s\n"
        "    {%- endif %}\n"
        "    {%- if backend.timeout_tunnel_s is not none %}\n",
        "    {%- if backend.timeout_tunnel_s is not none %}\n",
    ),
    # A frozen replica delays a request only so long; then HAProxy sends it to another one.
    (
        f"{REUSE}    # Set backend-specific timeouts",
        f"{REUSE}    http-request set-timeout server {{request_s}}s if {{{{ path /v1/decisions }}}}\n"
        "    http-request set-timeout server {batch_s}s if {{ path /v1/decisions:batch }}\n"
        "    # Set backend-specific timeouts",
    ),
    # Errors have a retry-after and their own status: Serve would make 500 of all.
    (ERROR_FILES, "".join(f"    http-error {_refusal(status, AWAY)}\n" for status in (502, 503, 504))),
    (
        "    http-request return status 404 content-type text/plain lf-string "
        "\"Path '%[path]' not found. Ping http://.../-/routes for available routes.\"\n",
        f"    http-request return {_refusal(503, AWAY)}\n",
    ),
    # Serve's routes and statistics are for its operators. Replicas decode a path, and answer to this one.
    ("    acl routes path -i /-/routes\n", "    acl routes path,url_dec -i /-/routes\n"),
    (
        "    http-request return status {{ route_info.status }} content-type "
        '{{ route_info.routes_content_type }} string "{{ route_info.routes_message }}" if routes\n',
        f"    http-request return {_refusal(404, '/-/routes: not found; see /openapi.json')} if routes\n",
    ),
    # The listening socket outlives HAProxy, so the port is never closed. Before the first replica is there,
    # requests wait in it.
    (
        "    bind {{ config.frontend_host }}:{{ config.frontend_port }}\n",
        f'    {{% if config.has_received_servers %}}bind "fd@${{{LISTENER}}}"{{% endif %}}\n',
    ),
    ("    bind :{{ config.metrics_port }}\n", "    bind 127.0.0.1:{{ config.metrics_port }}\n"),
    ("  bind *:{{ config.stats_port }}\n", "  bind 127.0.0.1:{{ config.stats_port }}\n"),
)
"""Replacements in the template: before, after."""


def hardened(template: str) -> str:
    """Change Serve's template of HAProxy's configuration for slow and unknown clients.

    Raises:
        RuntimeError: it is of another version of Ray.
    """
    request_s, batch_s = (os.environ.get(name, "60") for name in (REQUEST_TIMEOUT_S, BATCH_TIMEOUT_S))
    for before, after in CHANGES:
        if template.count(before) != 1:
            raise RuntimeError(f"this version of Ray configures HAProxy otherwise: {before.strip()!r}")
        timed = "set-timeout server" in after
        template = template.replace(
            before, after.format(request_s=request_s, batch_s=batch_s) if timed else after
        )
    return template


def harden(templates: Any) -> None:
    """Change the template in its module."""
    templates.HAPROXY_CONFIG_TEMPLATE = hardened(templates.HAPROXY_CONFIG_TEMPLATE)


async def _by_itself(*command: str, **settings: Any) -> asyncio.subprocess.Process:
    """Start a process in another session: Ray ends a worker with all processes of its session."""
    return await asyncio.create_subprocess_exec(*command, **settings, start_new_session=True)


async def end_with_node(node: int, process: int) -> None:
    """End a process when a node of Ray ends, whose raylet has the process id `node`."""
    await _by_itself("sh", "-c", END_WITH, "sh", str(node), str(process))


def end_haproxy(socket_path: Path) -> None:
    """End the HAProxy that takes commands at a Unix socket, if any, after its requests."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(COMMAND_S)
        client.connect(str(socket_path))
        client.sendall(b"show info\n")
        with client.makefile(encoding="ascii") as answer:
            process = next((int(line[4:]) for line in answer if line.startswith("Pid:")), None)
        if process is not None:
            os.kill(process, signal.SIGUSR1)  # it takes no more connections
            deadline = time.monotonic() + LAST_S
            while time.monotonic() < deadline:
                os.kill(process, 0)  # raises where it has ended
                time.sleep(LOOK_S)
            os.kill(process, signal.SIGKILL)


def end_haproxies(folder: Path) -> None:
    """End the HAProxies of a service whose replicas have died, and remove the folder of their files."""
    for path in folder.glob("*/admin.sock"):
        end_haproxy(path)
    shutil.rmtree(folder, ignore_errors=True)


def listen_at_node(module: Any) -> None:
    """Change the module of replicas: they listen for pickles only at the address of their node.

    Serve has them listen at every address of the machine, and a client that reaches that port can run code.
    """
    listen: Callable[..., int] = module.add_port_to_grpc_server

    def at_node(server: Any, address: str) -> int:
        from ray._common.network_utils import build_address
        from ray.util import get_node_ip_address

        return listen(server, build_address(get_node_ip_address(), address.rpartition(":")[2]))

    module.add_port_to_grpc_server = at_node


def keep_running(module: Any) -> None:
    """Change the module whose `HAProxyApi` starts HAProxy.

    A dead HAProxy starts again at the health check of its manager; Serve would first start another manager,
    half a minute later. Connections wait in the listening socket. If the manager is killed, HAProxy stays,
    and the next manager takes over once it knows the replicas. HAProxy ends with its node of Ray.
    """
    api = module.HAProxyApi
    sockets: list[socket.socket] = []
    node = os.getppid()  # the raylet; after its death this would be another process

    async def inheriting(*command: str, **settings: Any) -> asyncio.subprocess.Process:
        process = await _by_itself(*command, pass_fds=[shared.fileno() for shared in sockets], **settings)
        # At once: this worker dies with the node, and HAProxy would remain.
        await end_with_node(node, process.pid)
        return process

    module.asyncio = SimpleNamespace(**vars(asyncio) | {"create_subprocess_exec": inheriting})
    begin: Callable[..., Any] = api._start_and_wait_for_haproxy
    is_running: Callable[..., Any] = api.is_running

    async def launch(self: Any, *arguments: str, **settings: Any) -> Any:
        previous = await self._get_running_pid()
        if not sockets:
            sockets.append(listener.received(os.environ[LISTENER_PATH]))
            os.environ[LISTENER] = str(sockets[0].fileno())
        if previous is not None and "-sf" not in arguments:
            deadline = asyncio.get_running_loop().time() + TAKEOVER_S
            while not self.backend_configs and asyncio.get_running_loop().time() < deadline:
                await asyncio.sleep(LOOK_S)
            self._generate_config_file_internal()
            arguments = (*arguments, "-sf", str(previous))
        if "-sf" in arguments and "-x" not in arguments:  # hand over the port: no client finds it closed
            arguments = (*arguments, "-x", self.cfg.socket_path)
        return await begin(self, *arguments, **settings)

    def starting(self: Any) -> asyncio.Lock:
        """The lock of an API: a process that ends at a reload must not count as dead."""
        if "_starting" not in vars(self):
            self._starting = asyncio.Lock()
        lock: asyncio.Lock = self._starting
        return lock

    async def start_locked(self: Any, *arguments: str, **settings: Any) -> Any:
        async with starting(self):
            return await launch(self, *arguments, **settings)

    async def restart_if_dead(self: Any) -> bool:
        if self._proc is not None and self._proc.returncode is not None:
            async with starting(self):
                if self._proc.returncode is not None:
                    self._proc = await launch(self)
        return bool(await is_running(self))

    api._start_and_wait_for_haproxy, api.is_running = start_locked, restart_if_dead

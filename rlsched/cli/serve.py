"""`rlsched serve`: decisions of trained policies over HTTP."""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlsched.cli import options, output
from rlsched.cli.main import INTERRUPTED, say
from rlsched.errors import BadInputError
from rlsched.files import quoted
from rlsched.learn.interrupts import leave_terminal

if TYPE_CHECKING:
    from rlsched.serve.process.supervisor import Supervised
    from rlsched.serve.settings import ServeConfig

FoldersArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME=]DIR...",
        help="Folders that rlsched export wrote. Without NAME the policy is called 'default'. The first "
        "policy answers requests that name none.",
    ),
]
ConfigOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A YAML file with the settings of the service.")
]
PortOption = Annotated[
    str, typer.Option(metavar="N", parser=options.whole_number(1, 65_535), help="Port to listen at.")
]
HostOption = Annotated[
    str, typer.Option(metavar="H", help="Address to listen at; 0.0.0.0: also for other machines.")
]
ModeOption = Annotated[
    str | None,
    typer.Option(metavar="MODE", help="policy: the policy decides (default); shadow: the heuristic decides."),
]
FallbackOption = Annotated[
    str | None,
    typer.Option(metavar="NAME[:RULE]", help="Fallback heuristic, as in sjf:easy (default fcfs:easy)."),
]
GateOption = Annotated[
    Path | None,
    typer.Option(
        metavar="TRACE",
        help="Compare policies with heuristics on the last jobs of this trace (SWF), the site's own; "
        "the heuristic decides instead of a policy that is worse.",
    ),
]
ReplicasOption = Annotated[
    str | None, typer.Option(metavar="N", parser=options.whole_number(1), help="Replicas (default 1).")
]
TokenOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File of tokens, one per line; each request must send one of them."),
]
LogOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder for a log of all decisions, as a dataset to learn from."),
]
AddressOption = Annotated[
    str | None,
    typer.Option(metavar="A", help="Address of a Ray cluster (default: this machine)."),
]
SetOption = Annotated[list[str] | None, options.set_option("field of the service", "scaling.replicas=2")]


def serve(
    folder: FoldersArgument = None,
    config: ConfigOption = None,
    port: PortOption = "8000",
    host: HostOption = "127.0.0.1",
    mode: ModeOption = None,
    fallback: FallbackOption = None,
    gate: GateOption = None,
    replicas: ReplicasOption = None,
    token_file: TokenOption = None,
    log: LogOption = None,
    address: AddressOption = None,
    set_: SetOption = None,
    json: options.JsonOption = None,
) -> None:
    """Serve the decisions of trained policies over HTTP. A new version in DIR is loaded automatically.

    Ctrl-C ends the service after its last answer.

    Example: rlsched serve runs/policy --port 8000
    """
    targets = output.Targets(json).check()
    from rlsched.serve.process.supervisor import FAILS, Supervised
    from rlsched.serve.settings import ServeConfig
    from rlsched.settings import validate

    supervised = Supervised.of_process()
    if supervised is not None:  # the second process, with the settings of the first
        try:
            _serve(supervised.config, host, int(port), address, targets, supervised.gate, supervised)
        except KeyboardInterrupt:  # the first process reports it
            raise SystemExit(INTERRUPTED) from None
        except BaseException:
            supervised.report(FAILS)
            raise
        return
    values = _values(folder or [], config)
    for name, value in (("mode", mode), ("fallback", fallback), ("token_file", token_file), ("log", log)):
        if value is not None:
            values[name] = str(value)
    if gate is not None:
        in_file = values.get("gate")
        values["gate"] = {**(in_file if isinstance(in_file, dict) else {}), "trace": str(gate)}
    if replicas is not None:
        values["scaling"] = {**values.get("scaling", {}), "replicas": int(replicas)}
    settings = validate(ServeConfig, values, str(config or "serve"), set_ or [])
    passed_socket = _check(settings, host, int(port), address)
    gate_results = _evaluate_gate(settings, targets)
    # Called by another program than rlsched's command, the supervisor would start that program again.
    if address is None and "serve" in sys.argv[1:]:
        raise typer.Exit(_supervise(settings, host, int(port), passed_socket, gate_results))
    _serve(settings, host, int(port), address, targets, gate_results, None)


def _values(folders: list[str], file: Path | None) -> dict[str, Any]:
    """Settings of a file and of the named folders, as plain values."""
    from rlsched.settings_files import read_text, read_yaml

    values = read_yaml(read_text(file), str(file)) if file is not None else {}
    named: dict[str, str] = {}
    for text in folders:
        name, equals, path = text.partition("=")
        if not equals:
            name, path = "default", text
        if name in named:
            raise BadInputError("DIR", f"two policies are called {name!r}", "name them, as in fast=runs/fast")
        named[name] = path
    if named:
        values["policies"] = named
    if not values.get("policies"):
        raise BadInputError("DIR", "names no policy", "name a folder that rlsched export wrote")
    return values


def _check(config: ServeConfig, host: str, port: int, address: str | None) -> socket.socket | None:
    """Check folders, tokens and the port before anything starts.

    Returns:
        The listening socket that systemd passes; None: there is none, and the port is free.

    Raises:
        BadInputError: a policy is missing, or a port or folder cannot be used.
    """
    from rlsched.serve.api.tokens import read_tokens
    from rlsched.serve.process.launch import has_haproxy
    from rlsched.serve.process.listener import passed
    from rlsched.serve.process.ports import check_port

    for name, folder in config.policies.items():
        if not (folder / "policy.json").is_file():
            remedy = "name a folder that rlsched export wrote"
            if folder.is_dir():
                remedy += f", as in: rlsched export {quoted(folder)} runs/policy"
            raise BadInputError(f"policies.{name}", f"{str(folder)!r} holds no exported policy", remedy)
    read_tokens(config.token_file)
    if config.fallback is not None:
        from rlsched.learn.policy import load_policy
        from rlsched.serve.decide.fallback import FallbackHeuristic

        for folder in config.policies.values():
            FallbackHeuristic.named(config.fallback, load_policy(folder).scenario)
    if config.log is not None:
        output.check_folder("--log", config.log)
    passed_socket = passed(host, port)
    if passed_socket is None:
        check_port(host, port)
    elif address is not None or not has_haproxy():
        problem = "systemd passes a socket, which only HAProxy on this machine can use"
        raise BadInputError("LISTEN_FDS", problem, "remove the unit of the socket")
    return passed_socket


def _supervise(
    config: ServeConfig,
    host: str,
    port: int,
    passed_socket: socket.socket | None,
    gate_results: dict[str, Any],
) -> int:
    """Run this command in another process, and start it again if it dies; returns its exit code.

    Args:
        config: settings of the service.
        host: it listens at.
        port: likewise.
        passed_socket: a listening socket in which clients may wait already.
        gate_results: policy -> figures.
    """
    from rlsched.serve.process.launch import has_haproxy, open_listener
    from rlsched.serve.process.supervisor import Supervisor

    listening = passed_socket
    if listening is None and has_haproxy():
        listening = open_listener(host, port)
    command = [sys.executable, *sys.orig_argv[1:]]
    return Supervisor(
        config, host, listening, say, waiting=passed_socket is not None, command=command, gate=gate_results
    ).run()


def _evaluate_gate(config: ServeConfig, targets: output.Targets) -> dict[str, Any]:
    """Print the figures of the gate by policy, which other processes read in the policies' folders."""
    if config.gate is None:
        return {}
    output.announce_compiling()
    with output.busy("comparing policies with the heuristics"):
        from rlsched.serve.decide.policy_store import load_for_service

        loaded = {name: load_for_service(name, folder, config) for name, folder in config.policies.items()}
    for policy in loaded.values():
        targets.console.print(f"gate         {policy.gate}", soft_wrap=True)
    return {name: policy.gate_figures for name, policy in loaded.items()}


def _serve(
    config: ServeConfig,
    host: str,
    port: int,
    address: str | None,
    targets: output.Targets,
    gate_results: dict[str, Any],
    supervised: Supervised | None,
) -> None:
    """Serve until a signal ends the service."""
    from rlsched.serve.process.launch import serving
    from rlsched.serve.process.supervisor import ANNOUNCED

    console, began, ended = targets.console, time.perf_counter(), threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            leave_terminal()
        ended.set()

    running = serving(config, host, port, address, supervised)
    with output.busy("starting"):
        service = running.__enter__()
    try:
        # Only now: Ray sets its own for SIGTERM when it starts. A closed terminal ends the service, but not
        # under nohup.
        closed = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []
        for number in (signal.SIGINT, signal.SIGTERM, *closed):
            signal.signal(number, end)
        started_s = time.perf_counter() - began
        console.print(f"serving      {', '.join(config.policies)} at {service.url} after {started_s:.1f} s")
        # A command that is wrapped cannot be pasted.
        console.print("\n".join(_usage(config, service.url)), soft_wrap=True)
        if supervised is None or not supervised.announced:  # one document
            policies = {name: str(path) for name, path in config.policies.items()}
            gate = {"gate": gate_results} if gate_results else {}
            targets.write({"url": service.url, "policies": policies, "started_s": started_s, **gate})
        if supervised is not None:
            supervised.report(ANNOUNCED)
        ended.wait()
        console.print("ending after the last answers")
    finally:
        running.__exit__(None, None, None)


def _usage(config: ServeConfig, url: str) -> list[str]:
    """Lines about the use of a service at a URL."""
    first = next(iter(config.policies.values()))
    bearer = "" if config.token_file is None else "-H 'Authorization: Bearer TOKEN' "
    return [
        f"ask it       curl -s {bearer}{url}/v1/decisions -H content-type:application/json "
        f"-d @{first}/example.json",
        f"look at it   {url}/  (figures: {url}/metrics, description: {url}/openapi.json)",
        *([] if config.log is None else [f"log          {config.log}"]),
        "end it       Ctrl-C",
    ]

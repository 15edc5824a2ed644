"""`rlsched serve`: answer over HTTP what a trained policy would do now."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Callable
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


def serve(
    folder: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]DIR...",
            help="Folders that rlsched export wrote; without a name: default. The first is asked by default.",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A YAML file with the settings of the service.")
    ] = None,
    port: Annotated[
        str, typer.Option(metavar="N", parser=options.whole_number(1, 65_535), help="Port.")
    ] = "8000",
    host: Annotated[
        str, typer.Option(metavar="H", help="Address to listen at; 0.0.0.0: also for other machines.")
    ] = "127.0.0.1",
    mode: Annotated[
        str | None, typer.Option(metavar="MODE", help="policy: it decides; shadow: the heuristic does.")
    ] = None,
    fallback: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:RULE]", help="Heuristic beside the policy, as in sjf:easy; left out: fcfs:easy."
        ),
    ] = None,
    gate: Annotated[
        Path | None,
        typer.Option(
            metavar="TRACE",
            help="Hold policies against the heuristics on the last jobs of this trace (SWF), the site's own; "
            "where one stands back, the heuristic decides.",
        ),
    ] = None,
    replicas: Annotated[
        str | None, typer.Option(metavar="N", parser=options.whole_number(1), help="Replicas; left out: 1.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Tokens, one per line, one of which requests must bear."),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write every decision there, as a dataset to learn from."),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(metavar="A", help="Ray cluster to run on; left out: this machine."),
    ] = None,
    set_: Annotated[
        list[str] | None, options.set_option("field of the service", "scaling.replicas=2")
    ] = None,
    json: options.JsonOption = None,
) -> None:
    """Answer over HTTP what a trained policy would do now; a new version in DIR is taken up by itself.

    Ends on Ctrl-C, once what was asked is answered.

    Example: rlsched serve runs/policy --port 8000
    """
    output.Targets(json=json).check()
    from rlsched.serve.process.supervisor import FAILS, Supervised

    supervised = Supervised.of_process()
    if supervised is not None:
        try:
            _serve(supervised.config, host, int(port), address, json, supervised.gate, supervised)
        except KeyboardInterrupt:  # the first process says so
            raise SystemExit(INTERRUPTED) from None
        except BaseException:
            supervised.tell(FAILS)
            raise
        return
    values = _values(folder or [], config)
    for name, given in (("mode", mode), ("fallback", fallback), ("token_file", token_file), ("log", log)):
        if given is not None:
            values[name] = str(given)
    if gate is not None:
        there = values.get("gate")
        values["gate"] = {**(there if isinstance(there, dict) else {}), "trace": str(gate)}
    if replicas is not None:
        values["scaling"] = {**values.get("scaling", {}), "replicas": int(replicas)}

    from rlsched.serve.settings import ServeConfig
    from rlsched.settings import validate

    chosen = validate(ServeConfig, values, str(config or "serve"), set_ or [])
    waiting = _check(chosen, host, int(port), address)
    judged = _gate(chosen, json)
    # Called by another program than rlsched's command, it would start that a second time.
    if address is None and "serve" in sys.argv[1:]:
        raise typer.Exit(_supervise(chosen, host, int(port), waiting, judged))
    _serve(chosen, host, int(port), address, json, judged, None)


def _values(folders: list[str], file: Path | None) -> dict[str, Any]:
    """What a file and the folders named say, as plain values."""
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
    """What can be found out before anything starts.

    Returns:
        A listening socket of systemd; None: there is none, and the port is free.

    Raises:
        BadInputError: a policy is not there, or a port or a folder is not ours.
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
    waiting = passed(host, port)
    if waiting is None:
        check_port(host, port)
    elif address is not None or not has_haproxy():
        problem = "systemd passes a socket, which only HAProxy on this machine can use"
        raise BadInputError("LISTEN_FDS", problem, "remove the unit of the socket")
    return waiting


def _supervise(
    config: ServeConfig, host: str, port: int, waiting: socket.socket | None, gate: dict[str, Any]
) -> int:
    """Have this command run in another process, and start it again where it dies.

    Args:
        config: what is served.
        host: the service listens at.
        port: likewise.
        waiting: a listening socket in which clients may be waiting.
        gate: what it found.

    Returns:
        The exit code of the command.
    """
    from rlsched.serve.process.launch import has_haproxy, opened
    from rlsched.serve.process.supervisor import Supervisor

    listening = waiting
    if listening is None and has_haproxy():
        listening = opened(host, port)
    command = [sys.executable, *sys.orig_argv[1:]]
    return Supervisor(
        config, host, listening, say, waiting=waiting is not None, command=command, gate=gate
    ).run()


def _gate(config: ServeConfig, json: str | None) -> dict[str, Any]:
    """Hold policies against the gate before anything starts, and say what it found.

    Other processes find it in the folders of the policies.

    Returns:
        Policy -> what was found, in figures; nothing where there is no gate.

    Raises:
        BadInputError: a policy cannot be judged.
    """
    if config.gate is None:
        return {}
    output.announce_compiling()
    with output.busy("holding policies against the heuristics"):
        from rlsched.serve.decide.engine import load_for_service

        served = {name: load_for_service(name, folder, config) for name, folder in config.policies.items()}
    for one in served.values():
        output.people(json).print(f"gate         {one.gate}", markup=False, soft_wrap=True)
    return {name: one.gate_figures for name, one in served.items()}


def enough_of(enough: threading.Event) -> Callable[[int, FrameType | None], None]:
    """What ends a service at a signal."""

    def end(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            leave_terminal()
        enough.set()

    return end


def _serve(
    config: ServeConfig,
    host: str,
    port: int,
    address: str | None,
    json: str | None,
    gate: dict[str, Any],
    supervised: Supervised | None,
) -> None:
    """Serve until somebody says that it is enough."""
    from rlsched.serve.process.launch import serving
    from rlsched.serve.process.supervisor import ANNOUNCED

    console, clock = output.people(json), output.Clock()
    enough = threading.Event()
    started = serving(config, host, port, address, supervised)
    with output.busy("starting"):
        service = started.__enter__()
    try:
        # Only now: Ray has its own for SIGTERM when it starts. A closed terminal ends it, but under nohup.
        closed = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []
        for number in (signal.SIGINT, signal.SIGTERM, *closed):
            signal.signal(number, enough_of(enough))
        names = ", ".join(config.policies)
        console.print(f"serving      {names} at {service.url} after {clock.seconds:.1f} s")
        # A command that is wrapped cannot be pasted.
        console.print("\n".join(_usage(config, service.url)), soft_wrap=True)
        if json is not None and (supervised is None or not supervised.announced):  # one document
            policies = {name: str(path) for name, path in config.policies.items()}
            told = {"schema": 1, "url": service.url, "policies": policies, "started_s": clock.seconds}
            output.write_json(json, {**told, "gate": gate} if gate else told)
        if supervised is not None:
            supervised.tell(ANNOUNCED)
        enough.wait()
        console.print("ending, once what was asked is answered")
    finally:
        started.__exit__(None, None, None)


def _usage(config: ServeConfig, url: str) -> list[str]:
    """Lines that say what to do with a service at a URL."""
    first = next(iter(config.policies.values()))
    bearer = "" if config.token_file is None else "-H 'Authorization: Bearer TOKEN' "
    return [
        f"ask it       curl -s {bearer}{url}/v1/decisions -H content-type:application/json "
        f"-d @{first}/example.json",
        f"look at it   {url}/  (figures: {url}/metrics, description: {url}/openapi.json)",
        *([] if config.log is None else [f"log          {config.log}"]),
        "end it       Ctrl-C",
    ]

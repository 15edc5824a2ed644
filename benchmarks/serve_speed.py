"""Speed of the decision service relative to FastAPI with `serve.batch` (`benchmarks/stock_service.py`).

Measures what `rlsched bench serve` does, then puts the load of single decisions on the stock service.
Run: `python -m benchmarks.serve_speed runs/policy --clients 8`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from rlsched.cli import output
from rlsched.cli.bench import show_serve
from rlsched.cli.bench_serve import Measured, Service, check_alive, measure_service, process, put
from rlsched.learn.policy import load_policy
from rlsched.serve.process.ports import free_ports

STOCK = "stock FastAPI + batch"
SCRIPT = Path(__file__).with_name("stock_service.py")


@contextmanager
def running_stock(folder: Path, room: Path) -> Iterator[Service]:
    """Run the stock service in a process of its own."""
    port, start = free_ports(1)[0], time.perf_counter()
    with process([str(SCRIPT), str(folder), str(port)], room) as child:
        while "serving" not in (room / "log").read_text("utf-8", "replace"):
            check_alive(child, start, room)
        yield Service(port, time.perf_counter() - start)


def measure_stock(folder: Path, clients: Sequence[int], seconds: float) -> Iterator[Measured | Service]:
    """Put loads on the stock service, which is asked for actions by observation and mask."""
    layout = load_policy(folder).layout
    body = {"obs": np.linspace(0, 1, layout.size).round(4).tolist(), "mask": [1] * layout.num_actions}
    with tempfile.TemporaryDirectory() as scratch:
        room = Path(scratch)
        request = room / "stock.json"
        request.write_text(json.dumps(body), "utf-8")
        with running_stock(folder.absolute(), room) as service:
            for number in clients:
                load = put(service, "/act", [str(request)], number, seconds, room)
                yield Measured(STOCK, 0, number, 1, load)


def main() -> None:
    """Measure, and show the figures as a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", metavar="DIR", type=Path, help="folder that rlsched export wrote")
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=8.0, help="time for each figure")
    parser.add_argument("--json", metavar="FILE|-")
    arguments = parser.parse_args()
    clients, seconds = arguments.clients, arguments.seconds

    def results() -> Iterator[Measured | Service]:
        yield from measure_service(arguments.folder, arguments.replicas, clients, seconds)
        yield from measure_stock(arguments.folder, clients, seconds)

    show_serve(results(), output.Targets(arguments.json).check())


if __name__ == "__main__":
    main()

"""What stays out of the service's processes."""

from __future__ import annotations

import subprocess
import sys

IMPORTED = """
import sys
import rlsched.serve.process.lean_imports
import ray.serve
assert "pandas" not in sys.modules, "Serve has imported it"
import pandas
print(pandas.DataFrame({"a": [1, 2]})["a"].sum())
"""


def test_serve_goes_without_pandas_and_everyone_else_has_it() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["3"], done.stderr


POSTPONED = """
import sys
from rlsched.serve.process import lean_imports
lean_imports.postpone()
import torch
waits = [name for name in sorted(lean_imports.LATER) if type(sys.modules[name]) is lean_imports.Postponed]
assert waits == sorted(lean_imports.LATER), waits
print(len(waits), torch.nn.Linear(3, 2)(torch.ones(4, 3)).shape[0])
assert callable(torch.export.export)
print(type(torch.export) is lean_imports.Postponed)
"""


def test_what_only_compiles_networks_does_not_run_with_torch() -> None:
    done = subprocess.run([sys.executable, "-c", POSTPONED], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["2", "4", "False"], done.stderr


LISTENS = """
import socket
import rlsched.serve.process.lean_imports
import grpc
from ray.serve._private import replica
from ray.util import get_node_ip_address
server = grpc.server(None)
port = replica.add_port_to_grpc_server(server, "[::]:0")
server.start()
for host in (get_node_ip_address(), "127.0.0.99"):
    with socket.socket() as client:
        print(client.connect_ex((host, port)) == 0)
"""


def test_replicas_take_pickles_at_the_address_of_their_node_alone() -> None:
    done = subprocess.run([sys.executable, "-c", LISTENS], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "False"], done.stderr

"""What stays out of the service's processes."""

from __future__ import annotations

import subprocess
import sys

ASKED = """
import sys
import rlsched.serve.lean
import ray.serve
assert "pandas" not in sys.modules, "Serve has imported it"
import pandas
print(pandas.DataFrame({"a": [1, 2]})["a"].sum())
"""


def test_serve_goes_without_pandas_and_everyone_else_has_it() -> None:
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["3"], done.stderr

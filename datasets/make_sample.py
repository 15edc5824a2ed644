"""Write datasets/sample.swf.gz: the small trace that rlsched ships.

    python datasets/make_sample.py [file]

The same bytes at every run on one machine; another processor's exp() may move a time by a second.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from rlsched.workloads import swf
from rlsched.workloads.lublin import LublinModel

JOBS = 30_000
PROCESSORS = 256
LOAD = 1.06
SEED = 2


def main(path: Path) -> None:
    """Draw the jobs and write them."""
    jobs = LublinModel(load=LOAD).draw(np.random.default_rng(SEED), JOBS, PROCESSORS)
    note = (
        "generated, no real machine: the Lublin-Feitelson model (JPDC 63(11), 2003)\n"
        f"{JOBS} jobs, {PROCESSORS} processors, expected load {LOAD}, seed {SEED}, exact estimates\n"
        "command: python datasets/make_sample.py"
    )
    header = {"Computer": "none (model)", "Note": note, "UnixStartTime": "0", "TimeZone": "0"}
    swf.write(path, jobs, processors=PROCESSORS, header=header)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("sample.swf.gz"))

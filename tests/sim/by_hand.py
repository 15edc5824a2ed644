"""Cases small enough to be drawn on paper; the twin and the core must both get them right."""

from __future__ import annotations

from dataclasses import dataclass

from rlsched.jobs import JobTable


@dataclass(frozen=True)
class Case:
    """Jobs, the machine, and the start ticks that follow by hand, per kind of backfilling."""

    units: tuple[int, ...]
    table: JobTable
    starts: dict[str, list[int]]
    policy: str = "fcfs"
    window: int | None = None


# Seven jobs on three processors, first come first served. D takes longer than it asked for.
#
#          A  B  C  D  E  F  G
# submit   0  1  1  2  2  3  3
# takes    4  2  1  3  5  1  4
# asks     4  2  1  2  5  1  4
# procs    2  2  3  2  2  2  1
#
#                         1
#               0123456789012345678
# none          AAAABBCDDDEEEEEF       the queue strictly in order:
#               AAAABBCDDDEEEEEF       F does not fit beside E, and G may not pass it
#               ......C........GGGG
#
# greedy        AAAABBDDDCEEEEEF       3: G starts on the processor that A leaves
#               AAAABBDDDCEEEEEF       6: D starts, since C needs all three; C waits for both
#               ...GGGG..C
#
# easy          AAAABBFCDDDEEEEE       1: B is promised 4, with one processor to spare
#               AAAABBFCDDDEEEEE       3: G outlasts 4, but takes the spare processor only
#               ...GGGGC               6: C is promised 7; D and E would outlast it, F does not
#                                      8: D starts; E is promised 10, but D overruns until 11
#
# conservative  AAAABBCDDDEEEEEF       2: B, C, D, E are promised 4, 6, 7, 9
#               AAAABBCDDDEEEEEF       3: G would run into C at 6: promised 7; F 14
#               ......CGGGG            7: D and G start; D overruns until 10, then E, then F
SEVEN_JOBS = Case(
    units=(3,),
    table=JobTable.build(
        submit=[0, 1, 1, 2, 2, 3, 3],
        runtime=[4, 2, 1, 3, 5, 1, 4],
        requested=[4, 2, 1, 2, 5, 1, 4],
        demand=[2, 2, 3, 2, 2, 2, 1],
    ),
    starts={
        "none": [0, 4, 6, 7, 10, 15, 15],
        "greedy": [0, 4, 9, 6, 10, 15, 3],
        "easy": [0, 4, 7, 8, 11, 6, 3],
        "conservative": [0, 4, 6, 7, 10, 15, 7],
    },
)

# P asked for 3 ticks and takes 10: at 5 it is expected to end at 6, at 6 at 7, and so on.
#
#               0123456789012
# easy          PPPPPPPPPPBB     5: B is promised 6 beside one spare processor; Q is gone by 6
#               PPPPPPPPPPBB     6: B is promised 7; R outlasts that on the spare processor
#               .....QRR
OVERDUE = Case(
    units=(3,),
    table=JobTable.build(
        submit=[0, 5, 5, 5], runtime=[10, 2, 1, 2], requested=[3, 2, 1, 2], demand=[2, 2, 1, 1]
    ),
    starts={
        "none": [0, 10, 10, 11],
        "greedy": [0, 10, 5, 6],
        "easy": [0, 10, 5, 6],
        "conservative": [0, 10, 5, 6],
    },
)

# Four processors and two GPUs. A leaves (1, 1); B lacks a processor, C a GPU, D and E fit one by one.
# With all in view D starts at 0, and E at 2, where it outlasts B's promise at 5 with units to spare.
_TWO_RESOURCES = JobTable.build(
    submit=[0, 0, 0, 0, 0],
    runtime=[5, 3, 6, 2, 9],
    demand=[[3, 1], [2, 0], [1, 2], [1, 1], [1, 0]],
)
TWO_RESOURCES = Case(
    units=(4, 2),
    table=_TWO_RESOURCES,
    starts={"none": [0, 5, 5, 11, 11], "greedy": [0, 5, 5, 0, 2], "easy": [0, 5, 5, 0, 2]},
)
# With two in view D and E are behind B and C until 5; then B and C start, D is promised 11 and E fits.
WINDOW_OF_TWO = Case(
    units=(4, 2), table=_TWO_RESOURCES, starts={"none": [0, 5, 5, 11, 11], "easy": [0, 5, 5, 11, 5]}, window=2
)

CASES = {
    "seven jobs": SEVEN_JOBS,
    "overdue": OVERDUE,
    "two resources": TWO_RESOURCES,
    "window of two": WINDOW_OF_TWO,
}

# RLScheduler's rules, sjf with backfilling, four processors. X (3 of them) and Y (1) both run from 2 to 6,
# Y was started first, since it asks for less. H needs three and has waited since 3 for X, expected at 11.
# At 6 Y is released first: H does not fit yet, so Z, who came before W, starts beside it. Had X gone first,
# H would have started at once, and W, the shorter one, would have been next.
#
#                     B  C  X  Y  H  Z  W
RELEASES = JobTable.build(
    submit=[0, 0, 0, 0, 3, 4, 5],
    runtime=[1, 1, 4, 4, 2, 2, 1],
    requested=[1, 1, 9, 6, 2, 2, 1],
    demand=[4, 4, 3, 1, 3, 1, 1],
)
RELEASES_STARTS = [0, 1, 2, 2, 6, 6, 8]

# The same rules, fcfs with backfilling, six processors. A (2 of them) and B (4) both run from 0 to 10. A is
# expected at 100, B at 50. H needs five and waits from 1 on, expected at 100. Since then B stands before A:
# at 10 it is released first, and K, who asks for 30, starts on three of its four. H waits for K until 30.
# Had A gone first, K would not have fitted in between, and H would have started at 10.
#
#                     A   B   H  K
EXPECTED = JobTable.build(
    submit=[0, 0, 1, 2], runtime=[10, 10, 10, 20], requested=[100, 50, 10, 30], demand=[2, 4, 5, 3]
)
EXPECTED_STARTS = [0, 0, 30, 10]

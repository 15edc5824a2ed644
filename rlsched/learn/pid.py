"""PID controller of a penalty multiplier, for a cost with a limit [Stooke et al. 2020].

The update is a pure function of the controller's state and the newest episodes' cost to the next state.

With K_p = K_d = 0 it is gradient ascent of the multiplier, as usual in constrained optimisation. The
multiplier rises as long as the limit is exceeded and falls as long as it is not, so costs oscillate about the
limit. The proportional part responds to the present violation, and the derivative to rising costs before they
are too high.

The printed algorithm multiplies by K_p twice, which is a misprint [Venkataswamy 2023, algorithm 7].
"""

from __future__ import annotations

from math import inf

from rlsched.learn.config.sections import Pid
from rlsched.settings import Frozen


class LimitCheck(Frozen):
    """Result of a validation for a cost with a limit."""

    limit: float  # mean over the episodes, as an amount
    mean: float  # of the cost
    highest: float  # upper end of the 95 % interval of the mean
    unit: float  # divisor of an excess: the limit; for a limit of 0 the cost of the cheapest heuristic

    @property
    def excess(self) -> float:
        """Violation of the limit by the upper end, as a share of the limit; negative within it."""
        return (self.highest - self.limit) / self.unit

    @property
    def margin(self) -> float:
        """Half of the interval as a share of the mean, or of the limit where that is more."""
        return (self.highest - self.mean) / (max(self.mean, self.limit) or 1.0)

    @property
    def verdict(self) -> str:
        """Whether the limit is kept, in words."""
        if self.highest <= self.limit:
            return "within"
        return "within on average, not by interval," if self.mean <= self.limit else "above"


class Control(Frozen):
    """State of a controller after a move."""

    cost: float  # mean of the newest episodes, in units of the usual cost or of the limit
    error: float  # cost less the limit, in the same unit; negative where the limit is kept
    proportional: float  # smoothed error, clipped before to `Pid.largest_error`
    integral: float  # sum of errors times their gain, between 0 and `Pid.integral_limit`
    derivative: float  # rise of the smoothed cost over `Pid.delay` moves; 0 where it fell
    multiplier: float  # the controller's output, at least 0
    smoothed: tuple[float, ...]  # cost after each of the last moves, oldest first


def control(before: Control | None, cost: float, limit: float, pid: Pid) -> Control:
    """Compute the next state of a controller.

    Averages begin with the first value, not at 0, which was never a cost.

    Args:
        before: the state; None: this is the first move.
        cost: mean of the newest episodes, in units of the usual cost or of the limit.
        limit: in the same unit.
        pid: gains and smoothing.
    """
    error = cost - limit
    largest = inf if pid.largest_error is None else pid.largest_error
    counted = min(max(error, -largest), largest)
    history: tuple[float, ...] = (cost,)
    if before is None:
        proportional, integral = counted, pid.initial
    else:
        proportional = pid.error_smoothing * before.proportional + (1.0 - pid.error_smoothing) * counted
        smooth = pid.cost_smoothing * before.smoothed[-1] + (1.0 - pid.cost_smoothing) * cost
        integral, history = before.integral, (*before.smoothed, smooth)[-pid.delay - 1 :]
    integral = min(max(integral + pid.ki * counted, 0.0), pid.integral_limit)
    derivative = max(0.0, history[-1] - history[0])
    multiplier = max(0.0, pid.kp * proportional + integral + pid.kd * derivative)
    return Control(
        cost=cost,
        error=error,
        proportional=proportional,
        integral=integral,
        derivative=derivative,
        multiplier=multiplier,
        smoothed=history,
    )

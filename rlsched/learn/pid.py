"""What breaking a limit costs: a multiplier under the control of a PID controller [Stooke et al. 2020].

Pure: the state of a controller goes in with what the newest episodes came to, the next state comes out.

With K_p = K_d = 0 it is what constrained optimisation usually does, gradient ascent of the multiplier: it
goes on rising while the limit is broken and on falling while it is not, so that costs swing about it. The
proportional part answers to what is broken now, the derivative to costs that rise, before they are too high.
The printed algorithm multiplies by K_p twice, which is a misprint [Venkataswamy 2023, algorithm 7].
"""

from __future__ import annotations

from math import inf

from rlsched.learn.config.sections import Pid
from rlsched.settings import Frozen


class LimitCheck(Frozen):
    """What validation says of a cost with a limit.

    Attributes:
        limit: mean over its episodes, as an amount.
        mean: of the cost.
        highest: upper end of the 95 % interval of the mean.
        unit: of an excess: the limit; of a limit of 0 what the cheapest heuristic costs.
    """

    limit: float
    mean: float
    highest: float
    unit: float

    @property
    def excess(self) -> float:
        """By which share of the limit it is exceeded by the upper end; negative within it."""
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
    """The state of a controller after a move.

    Attributes:
        cost: mean of the newest episodes, in units of what is usual, or of the limit.
        error: cost beyond the limit, likewise; negative where the limit is kept.
        proportional: the errors as far as they count (`Pid.largest_error`), smoothed.
        integral: of errors times their gain, between 0 and `Pid.integral_limit`.
        derivative: how much more the smoothed cost is than `Pid.delay` moves ago; 0 where less.
        multiplier: what comes of these, at least 0.
        smoothed: the smoothed cost after each of the last moves, oldest first.
    """

    cost: float
    error: float
    proportional: float
    integral: float
    derivative: float
    multiplier: float
    smoothed: tuple[float, ...]


def control(before: Control | None, cost: float, limit: float, pid: Pid) -> Control:
    """The next state.

    Averages begin with the first value, not at 0, which would be a cost that was never seen.

    Args:
        before: the state; None: this is the first move.
        cost: mean of the newest episodes, in units of what is usual, or of the limit.
        limit: that it is to be kept below, likewise.
        pid: gains, and how long it remembers.
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

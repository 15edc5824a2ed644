"""Optuna through Ray Tune, with every point tried once: in a space of listed values it repeats itself."""

from __future__ import annotations

import json
from typing import Any

from optuna.trial import TrialState
from ray.tune.search import Searcher as Base
from ray.tune.search.optuna import OptunaSearch

TRIES = 200
"""Times that it is asked again for a point that was not tried."""


class Searcher(OptunaSearch):
    """What it suggests again is told to it as failed, and it is asked for another; after many, it is done."""

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The settings of another trial."""
        for _ in range(TRIES):
            found = super().suggest(trial_id)
            said = json.dumps(found, sort_keys=True)
            tried = self.__dict__.setdefault("tried", set())
            if said not in tried:
                tried.add(said)
                return found
            self._ot_study.tell(self._ot_trials.pop(trial_id), state=TrialState.FAIL)
        return str(Base.FINISHED)

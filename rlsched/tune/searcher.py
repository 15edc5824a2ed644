"""Optuna through Ray Tune, without points that were tried: in a space of listed values it repeats itself."""

from __future__ import annotations

import json
from typing import Any

from optuna.trial import TrialState
from ray.tune.search import Searcher
from ray.tune.search.optuna import OptunaSearch

MAX_SUGGESTIONS = 200
"""Suggestions for one new point, before the search ends."""


class UniqueOptunaSearch(OptunaSearch):
    """Marks a repeated suggestion as failed, and asks Optuna for another one."""

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The settings of the next trial, or the mark that there is none."""
        for _ in range(MAX_SUGGESTIONS):
            settings = super().suggest(trial_id)
            key = json.dumps(settings, sort_keys=True)
            tried = self.__dict__.setdefault("tried", set())
            if key not in tried:
                tried.add(key)
                return settings
            self._ot_study.tell(self._ot_trials.pop(trial_id), state=TrialState.FAIL)
        return str(Searcher.FINISHED)

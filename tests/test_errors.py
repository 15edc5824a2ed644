"""Bad input is one line, wherever it was found, and survives the way from one process to another."""

from __future__ import annotations

import copy
import pickle

import pytest

from rlsched.errors import BadInputError


def test_it_says_where_what_and_the_remedy_in_one_line() -> None:
    error = BadInputError("trace.swf: line 7", "value 'x\n y'", "mend\tit")
    assert str(error) == "trace.swf: line 7: value 'x y'; mend it"
    assert (error.where, error.problem, error.remedy) == ("trace.swf: line 7", "value 'x\n y'", "mend\tit")
    assert isinstance(error, ValueError)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_it_pickles(protocol: int) -> None:
    """Remote workers raise it, too."""
    error = BadInputError("a", "b", "c")
    for second in (pickle.loads(pickle.dumps(error, protocol)), copy.copy(error)):
        assert type(second) is BadInputError
        assert str(second) == str(error)
        assert (second.where, second.problem, second.remedy) == ("a", "b", "c")

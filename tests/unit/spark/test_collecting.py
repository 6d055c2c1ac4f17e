from __future__ import annotations

import gc

import pytest

from magnetar.spark.collecting import collecting_later


def test_garbage_is_collected_after_a_plan_and_not_amid() -> None:
    for is_planning_within in (False, True):
        with collecting_later():
            assert not gc.isenabled()
            if is_planning_within:
                with collecting_later():
                    pass
            assert not gc.isenabled()
        assert gc.isenabled()


def test_a_plan_that_fails_lets_garbage_be_collected_again() -> None:
    with pytest.raises(ValueError, match="no plan"), collecting_later():
        raise ValueError("no plan")
    assert gc.isenabled()

"""Tests that share servers run on one worker: each worker would start the servers otherwise."""

from __future__ import annotations

import pytest

GROUP = "tidy"


@pytest.mark.xdist_group(GROUP)
def test_a_group_of_tests_is_known_to_the_scheduler(request: pytest.FixtureRequest) -> None:
    """By the end of a test's name. Without `--dist loadgroup` there are no groups."""
    if getattr(request.config.option, "loadgroup", False):
        assert request.node.nodeid.endswith(f"@{GROUP}")

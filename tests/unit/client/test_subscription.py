from __future__ import annotations

import pytest

from magnetar.client.error import ConfigurationError
from magnetar.client.subscription import ConsumerSettings


@pytest.mark.parametrize(
    "wrong",
    [{"receiver_queue_size": 0}, {"ack_group_size": 0}, {"ack_group_time": -1}, {"nack_delay": -1}],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError):
        ConsumerSettings("s", **wrong)  # type: ignore[arg-type]

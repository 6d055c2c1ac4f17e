from __future__ import annotations

import pytest

from magnetar.client.error import ConfigurationError
from magnetar.client.message_id import EARLIEST_ID, LATEST_ID, MessageId
from magnetar.client.subscription import ConsumerSettings, Floor


@pytest.mark.parametrize(
    ("floor", "is_included", "id", "expected"),
    [
        (MessageId(1, 5), False, MessageId(1, 5), False),
        (MessageId(1, 5), True, MessageId(1, 5), True),
        (MessageId(1, 5), False, MessageId(1, 6), True),
        (MessageId(1, 5), False, MessageId(2, 0), True),
        (MessageId(1, 5), True, MessageId(1, 4), False),
        (MessageId(1, 5), False, MessageId(1, 5, -1, 3, 4), False),
        (MessageId(1, 5), True, MessageId(1, 5, -1, 0, 4), True),
        (MessageId(1, 5, -1, 2), False, MessageId(1, 5, -1, 2, 4), False),
        (MessageId(1, 5, -1, 2), False, MessageId(1, 5, -1, 3, 4), True),
        (MessageId(1, 5, -1, 2), True, MessageId(1, 5, -1, 2, 4), True),
        (MessageId(1, 5, -1, 2), True, MessageId(1, 5, -1, 1, 4), False),
        (EARLIEST_ID, False, MessageId(0, 0), True),
        (LATEST_ID, False, MessageId(9, 9), True),
    ],
)
def test_a_floor_wants_what_lies_above_it(
    floor: MessageId, is_included: bool, id: MessageId, expected: bool
) -> None:
    assert Floor(floor, is_included).wants(id) is expected


@pytest.mark.parametrize(
    "wrong",
    [{"receiver_queue_size": 0}, {"ack_group_size": 0}, {"ack_group_time": -1}, {"nack_delay": -1}],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError):
        ConsumerSettings("s", **wrong)  # type: ignore[arg-type]

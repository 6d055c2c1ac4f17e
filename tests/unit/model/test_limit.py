from __future__ import annotations

import pytest

from magnetar.errors import BadRequest, InvalidName, shorten
from magnetar.model.limit import Limits, check_namespace, check_properties, check_topic

LIMITS = Limits(tenant_name_bytes=6, namespace_name_bytes=7, topic_name_bytes=10)


@pytest.mark.parametrize(
    "text",
    [
        "0123456789",
        "tenant/default/0123456789",
        "persistent://tenant/default/0123456789",
        "persistent://tenant/default/0123456789-partition-2147483647",
        "segment://tenant/default/0123456789/0000-ffff-12",
        "non-persistent://t/n/ööööö",
        "a/b",
        "",
    ],
)
def test_names_within_the_limit_pass_and_so_do_their_partitions_and_segments(text: str) -> None:
    check_topic(LIMITS, text)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("0123456789a", "maxTopicNameLength"),
        ("persistent://t/n/0123456789a", "maxTopicNameLength"),
        ("persistent://t/n/öööööö", "maxTopicNameLength"),
        ("persistent://t/n/0123456789a-partition-1", "maxTopicNameLength"),
        ("persistent://t/n/012345678-partition-12345678901", "maxTopicNameLength"),
        ("tenants/n/x", "maxTenantNameLength"),
        ("persistent://tenants/n/x", "maxTenantNameLength"),
        ("persistent://t/defaults/x", "maxNamespaceNameLength"),
        ("topic://t/n/a/b/0123456789", "maxTopicNameLength"),
    ],
)
def test_a_name_that_is_too_long_is_refused_by_the_part_that_is(text: str, key: str) -> None:
    with pytest.raises(InvalidName, match=key):
        check_topic(LIMITS, text)


def test_a_refusal_says_how_long_it_is_what_is_allowed_and_how_it_begins() -> None:
    with pytest.raises(InvalidName) as caught:
        check_namespace(LIMITS, "t/" + "n" * 5000)
    sentence = caught.value.sentence
    assert "5000 bytes, and at most 7 bytes are allowed (maxNamespaceNameLength)" in sentence
    assert sentence.endswith("n" * 100 + "… (5000 characters)")


def test_properties_are_counted_measured_and_summed() -> None:
    limits = Limits(
        property_count=3, property_key_bytes=4, property_value_bytes=5, properties_bytes=12
    )
    check_properties(limits, {"a": "b", "c": "d", "e": "f"}.items())
    for bad, key in (
        ({str(n): "" for n in range(4)}, "maxProperties"),
        ({"abcde": ""}, "maxPropertyKeyLength"),
        ({"a": "123456"}, "maxPropertyValueLength"),
        ({"abcd": "12345", "b": "123"}, "maxPropertiesSize"),
    ):
        with pytest.raises(BadRequest, match=key):
            check_properties(limits, bad.items())


def test_a_short_text_is_shown_whole() -> None:
    assert shorten("x" * 100) == "x" * 100

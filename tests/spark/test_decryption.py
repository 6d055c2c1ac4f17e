"""Encrypted messages: decrypted with the keys that a query has, refused or shown as they are
without.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pyspark.sql.datasource import GreaterThanOrEqual

from magnetar import PemKeys, ProducerEncryption
from magnetar.client.admin import AdminClient
from magnetar.spark.option import InvalidOption
from magnetar.spark.source import MagnetarSource
from magnetar.spark.value import ValueUnreadable
from tests.spark.engine import read_batch
from tests.spark.feed import fresh, publish


class Pair:
    """A key pair in files."""

    def __init__(self, folder: Path, name: str) -> None:
        private = rsa.generate_private_key(65537, 2048)
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(
            private.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        self.public = private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(tmp_path_factory.mktemp("keys"), "Orders")


@pytest.fixture
def topic(connection: dict[str, str], admin: AdminClient, pair: Pair) -> str:
    """Ten messages, batched, compressed and encrypted, and one that is not."""
    name = fresh()
    admin.scalable_topics.create(name)
    sealing = ProducerEncryption(PemKeys(public={"Orders": pair.public}), ["Orders"])
    url = connection["serviceUrl"]
    publish(url, name, range(10), lambda each: "k", encryption=sealing, compression="zstd")
    publish(url, name, [b"10"], lambda each: "k", message={"ordering_key": b"o"})
    return name


def read(connection: dict[str, str], topic: str, **options: Any) -> list[Any]:
    return read_batch(connection, topic=f"topic://{topic}", **options)


@pytest.mark.parametrize("spelled", ["{path}", '{{"Orders": "{path}"}}', '{{"*": "{path}"}}'])
def test_messages_are_decrypted_with_the_keys_of_the_query(
    connection: dict[str, str], topic: str, pair: Pair, spelled: str
) -> None:
    rows = read(connection, topic, decryptionKeys=spelled.format(path=pair.path))
    assert [int(row["value"]) for row in rows] == list(range(11))
    assert [row["encryption"] for row in rows] == [
        *[{"keys": ["Orders"], "decrypted": True}] * 10,
        None,
    ]
    assert [row["ordering_key"] for row in rows] == [*[None] * 10, b"o"]


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (None, "no private key 'Orders'"),
        ('{"other": "/p"}', "no private key 'Orders'"),
        ("/nowhere.pem", "No such file"),
    ],
)
def test_a_message_without_its_key_is_refused_with_what_to_do(
    connection: dict[str, str], topic: str, keys: str | None, told: str
) -> None:
    options = {} if keys is None else {"decryptionKeys": keys}
    with pytest.raises(ValueUnreadable, match="is encrypted") as refused:
        read(connection, topic, **options)
    assert told in refused.value.sentence and "onEncrypted" in refused.value.sentence


def test_a_key_of_somebody_else_opens_nothing(
    connection: dict[str, str], topic: str, tmp_path: Path
) -> None:
    other = Pair(tmp_path, "other")
    with pytest.raises(ValueUnreadable, match="wrapped for another key"):
        read(connection, topic, decryptionKeys=str(other.path))


def test_ciphertext_is_given_when_asked_for_and_marked(
    connection: dict[str, str], topic: str
) -> None:
    *sealed, plain = read(connection, topic, onEncrypted="raw")
    assert plain["value"] == b"10" and plain["encryption"] is None
    assert sealed and all(row["encryption"]["decrypted"] is False for row in sealed)


def test_bad_values_may_be_null_here_too(connection: dict[str, str], topic: str) -> None:
    *sealed, plain = read(connection, topic, badValue="null")
    assert plain["value"] == b"10" and all(row["value"] is None for row in sealed)


def test_keys_that_are_no_paths_are_refused(connection: dict[str, str], topic: str) -> None:
    with pytest.raises(InvalidOption, match="decryptionKeys is the path"):
        read(connection, topic, decryptionKeys='{"a": 1}')


def test_entries_that_were_published_at_other_times_are_not_unpacked(
    connection: dict[str, str], topic: str
) -> None:
    """Those with other times are encrypted, and there is no key."""
    *_, plain = read(connection, topic, onEncrypted="raw")
    source = MagnetarSource(connection | {"topic": topic, "pushDown": "true"})
    reader = source.reader(source.schema())
    list(reader.pushFilters([GreaterThanOrEqual(("publish_time",), plain["publish_time"])]))
    rows = [row for t in reader.partitions() for b in reader.read(t) for row in b.to_pylist()]
    assert rows == [plain]
    with pytest.raises(ValueUnreadable, match="encrypted"):
        read(connection, topic)

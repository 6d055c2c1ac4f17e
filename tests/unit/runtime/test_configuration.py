from __future__ import annotations

import typing
from pathlib import Path

import pytest

from magnetar.errors import InvalidConfiguration, PreconditionFailed
from magnetar.runtime.configuration import Configuration, dynamic_names
from magnetar.runtime.key import Key, Use, find_key, format_value, load_keys

KEYS = load_keys()
TYPES = {
    "int": int,
    "long": int,
    "float": float,
    "bool": bool,
    "text": str,
    "list": tuple[str, ...],
    "set": tuple[str, ...],
}


def declared_type(key: Key) -> object:
    kind = TYPES.get(key.kind.removesuffix("?"), str)
    return kind | None if key.kind.endswith("?") else kind


def test_every_acting_key_is_an_attribute_of_its_type() -> None:
    hints = typing.get_type_hints(Configuration)
    declared = {name: hint for name, hint in hints.items() if not name.startswith("_")}
    assert declared == {
        key.name: declared_type(key) for key in KEYS.values() if key.use is Use.ACTING
    }


def test_the_table_covers_pulsars_broker_keys() -> None:
    assert len(KEYS) > 600
    for name in (
        "brokerServicePort",
        "zookeeperServers",
        "managedLedgerOffloadDriver",
        "gcWaitTime",
    ):
        assert name in KEYS


def test_every_default_is_read_back_from_its_text() -> None:
    for key in KEYS.values():
        for default in (key.default, key.standalone_default):
            assert key.parse(format_value(default)) == default, key.name


def test_defaults_are_pulsars() -> None:
    config = Configuration()
    assert config.maxMessageSize == 5 * 1024 * 1024
    assert config.brokerServicePort == 6650
    assert config.subscriptionTypesEnabled == ("Exclusive", "Shared", "Failover", "Key_Shared")
    assert config.schemaCompatibilityStrategy == "FULL"
    assert config.brokerDeleteInactiveTopicsMaxInactiveDurationSeconds is None
    assert config.clusterName == ""
    assert config.journalSyncData is True


def test_standalone_has_defaults_of_its_own() -> None:
    config = Configuration(standalone=True)
    assert config.clusterName == "standalone"
    assert config.get("managedLedgerDefaultEnsembleSize") == 1
    assert Configuration({"clusterName": "mine"}, standalone=True).clusterName == "mine"


def test_values_come_as_text_or_typed() -> None:
    config = Configuration(
        {
            "maxTenants": "7",
            "brokerDeduplicationEnabled": True,
            "subscriptionTypesEnabled": ["Shared", "Failover"],
            "webServicePort": None,
            "backlogQuotaDefaultLimitGB": 1.5,
        }
    )
    assert config.maxTenants == 7
    assert config.brokerDeduplicationEnabled is True
    assert config.subscriptionTypesEnabled == ("Shared", "Failover")
    assert config.webServicePort is None
    assert config.backlogQuotaDefaultLimitGB == 1.5


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("maxMessageSize", "5MB", "maxMessageSize: '5MB' is not a whole number"),
        ("maxMessageSize", str(2**31), f"maxMessageSize: '{2**31}' is not a whole number"),
        ("maxMessageSize", 1.5, "maxMessageSize: '1.5' is not a whole number"),
        ("maxTenants", True, "maxTenants: 'true' is not a whole number"),
        ("delayedDeliveryEnabled", "yes", "delayedDeliveryEnabled: 'yes' is not true or false"),
        ("backlogQuotaDefaultLimitGB", "x", "backlogQuotaDefaultLimitGB: 'x' is not a number"),
        (
            "allowAutoTopicCreationType",
            "round",
            "allowAutoTopicCreationType: 'round' is not one of partitioned, non-partitioned",
        ),
        (
            "managedLedgerDefaultEnsembleSize",
            "0",
            "managedLedgerDefaultEnsembleSize: '0' is not a whole number, 1 or more",
        ),
        ("maxTenants", {}, "maxTenants: a dict cannot be a value"),
    ],
)
def test_a_bad_value_is_refused_by_key_value_and_expected_type(
    key: str, value: object, sentence: str
) -> None:
    with pytest.raises(InvalidConfiguration) as refusal:
        Configuration({key: value})
    assert refusal.value.sentence == sentence


def test_the_value_of_a_secret_is_not_repeated() -> None:
    secret = Key("storePassword", "int", 0, 0, False, None, Use.INERT, "")
    with pytest.raises(InvalidConfiguration) as refusal:
        secret.parse("hunter2")
    assert "hunter2" not in refusal.value.sentence


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("maxMesageSize", "; did you mean maxMessageSize?"),
        ("MAXMESSAGESIZE", "; did you mean maxMessageSize?"),
        ("brokerServicPort", "; did you mean brokerServicePort?"),
        ("qqqqqq", ""),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(name: str, nearest: str) -> None:
    with pytest.raises(InvalidConfiguration) as refusal:
        Configuration({name: "1"})
    assert refusal.value.sentence == f"{name} is not a configuration key{nearest}"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tlsEnabledWithKeyStore", "true"),
        ("entryFilterNames", "secretive"),
    ],
)
def test_what_would_be_unsafe_to_ignore_is_refused(key: str, value: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"^{key}={value} is refused: "):
        Configuration({key: value})


@pytest.mark.parametrize("key", [key for key in KEYS.values() if key.use is Use.REFUSED])
def test_a_refused_key_may_keep_its_default(key: Key) -> None:
    assert Configuration({key.name: format_value(key.default)}).get(key.name) == key.default


def test_keys_without_effect_are_named_only_when_set_to_something_else() -> None:
    config = Configuration(
        {
            "numIOThreads": "3",
            "webSocketServiceEnabled": "false",
            "maxTenants": "3",
            "bookkeeper_anything": "at all",
            "authenticationProviders": "",
        }
    )
    reasons = config.inert_settings()
    assert list(reasons) == ["bookkeeper_anything", "numIOThreads"]
    assert "BookKeeper" in reasons["bookkeeper_anything"]
    assert "event loop" in reasons["numIOThreads"]
    assert config.get("bookkeeper_anything") == "at all"


def test_blank_empties_what_can_be_empty_and_leaves_the_rest_at_its_default() -> None:
    config = Configuration(
        {
            "webServicePort": "",
            "maxTenants": "",
            "clusterName": "",
            "subscriptionTypesEnabled": " ",
        },
        standalone=True,
    )
    assert config.webServicePort is None
    assert config.maxTenants == 0
    assert config.clusterName == ""
    assert config.subscriptionTypesEnabled == ()


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("clusterName=from-file\nmaxTenants=3\n")
    config = Configuration.load(file, ["clusterName=from-command", "clusterName=last"])
    assert (config.clusterName, config.maxTenants) == ("last", 3)
    assert dict(config.settings) == {"clusterName": "last", "maxTenants": 3}


def test_a_configuration_cannot_be_assigned_to() -> None:
    config = Configuration()
    with pytest.raises(AttributeError):
        config.maxTenants = 3
    assert config.maxTenants == 0


def test_a_dynamic_key_changes_and_tells_its_listeners_once() -> None:
    config = Configuration({"maxTenants": 3})
    seen: list[int] = []
    stop = config.listen(
        ["maxTenants", "maxTopicsPerNamespace"], lambda: seen.append(config.maxTenants)
    )
    config.update_dynamic("maxTenants", "4")
    config.update_dynamic("maxTenants", "4")
    config.update_dynamic("maxTopicsPerNamespace", "9")
    config.update_dynamic("maxNamespacesPerTenant", "9")
    config.reset_dynamic("maxTenants")
    assert seen == [4, 4, 3]
    stop()
    config.update_dynamic("maxTenants", "5")
    assert seen == [4, 4, 3]
    assert config.maxTenants == 5


@pytest.mark.parametrize(
    ("key", "value"),
    [("maxMessageSize", "1"), ("nothing", "1"), ("maxTenants", "many"), ("entryFilterNames", "x")],
)
def test_what_cannot_change_at_run_time_is_refused(key: str, value: str) -> None:
    config = Configuration()
    with pytest.raises(PreconditionFailed):
        config.update_dynamic(key, value)
    assert config.format_values() == Configuration().format_values()


def test_only_dynamic_keys_can_be_reset_or_listened_to() -> None:
    config = Configuration()
    with pytest.raises(PreconditionFailed):
        config.reset_dynamic("maxMessageSize")
    with pytest.raises(AssertionError):
        config.listen(["maxMessageSize"], lambda: None)
    assert "maxTenants" in dynamic_names()
    assert "maxMessageSize" not in dynamic_names()


def test_formatted_values_mask_secrets() -> None:
    config = Configuration({"tlsKeyStorePassword": "hunter2", "maxTenants": 3})
    values = config.format_values()
    assert values["tlsKeyStorePassword"] == "********"
    assert values["brokerClientTlsKeyStorePassword"] == ""
    assert values["maxTenants"] == "3"
    assert values["subscriptionTypesEnabled"] == "Exclusive,Shared,Failover,Key_Shared"
    assert values.keys() == KEYS.keys()


def test_a_key_can_be_asked_for_by_name_only_when_it_exists() -> None:
    with pytest.raises(InvalidConfiguration):
        Configuration().get("nothing")
    assert find_key("brokerClient_anything").use is Use.INERT

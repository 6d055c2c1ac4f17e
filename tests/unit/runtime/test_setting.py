from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import InvalidConfiguration
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.setting import (
    load_settings,
    parse_overrides,
    parse_properties,
    parse_toml,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("  a = b c  ", {"a": "b c"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a : = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("# a=b\n! c=d\n\n   # e=f\ng=h#i", {"g": "h#i"}),
        ("a=b,\\\n   c,\\\n\td\ne=f", {"a": "b,c,d", "e": "f"}),
        ("a=b\\", {"a": "b"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a\\\\=c", {"a\\": "c"}),
        ("a=x\\ty\\u0041\\q", {"a": "x\tyAq"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("# comment ends \\\na=1", {"a": "1"}),
        ("path=C:\\\\data", {"path": "C:\\data"}),
    ],
)
def test_property_files_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@given(st.text())
def test_any_text_is_a_property_file(text: str) -> None:
    for key, value in parse_properties(text).items():
        assert isinstance(key, str)
        assert value == value.strip()


def test_tables_of_toml_only_group() -> None:
    text = """
    clusterName = "one"
    [limits]
    maxTenants = 3
    [limits.deeper]
    brokerDeduplicationEnabled = true
    subscriptionTypesEnabled = ["Shared", "Failover"]
    backlogQuotaDefaultLimitGB = 1.5
    """
    assert parse_toml(text) == {
        "clusterName": "one",
        "maxTenants": "3",
        "brokerDeduplicationEnabled": "true",
        "subscriptionTypesEnabled": "Shared,Failover",
        "backlogQuotaDefaultLimitGB": "1.5",
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = 1\n[t]\na = 2", "a is set in two tables"),
        ("a = ", "not valid TOML"),
        ("a = 1979-05-27", "a: a date cannot be a value"),
    ],
)
def test_toml_that_cannot_be_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"^{reason}"):
        parse_toml(text)


def test_a_files_name_decides_its_form_and_begins_every_refusal(tmp_path: Path) -> None:
    toml = tmp_path / "broker.toml"
    toml.write_text('a = "b"')
    conf = tmp_path / "broker.conf"
    conf.write_text('a = "b"')
    assert load_settings(toml) == {"a": "b"}
    assert load_settings(conf) == {"a": '"b"'}
    toml.write_text("=")
    with pytest.raises(InvalidConfiguration, match=r"broker\.toml: not valid TOML"):
        load_settings(toml)
    with pytest.raises(InvalidConfiguration, match=r"missing\.conf: No such file"):
        load_settings(tmp_path / "missing.conf")
    conf.write_bytes(b"a=\xff")
    with pytest.raises(InvalidConfiguration, match=r"broker\.conf: byte 2 is not UTF-8"):
        load_settings(conf)


def test_overrides_are_key_value_words() -> None:
    assert parse_overrides(["a=1", "b = x=y", "a="]) == {"a": "", "b": "x=y"}
    for bad in ("a", "=1", ""):
        with pytest.raises(InvalidConfiguration, match="is not KEY=VALUE"):
            parse_overrides([bad])


def test_a_refused_setting_is_found_by_file_and_line(tmp_path: Path) -> None:
    conf, toml = tmp_path / "broker.conf", tmp_path / "broker.toml"
    conf.write_text("# comment\nclusterName=a\\\n  b\n\nmaxMesageSize 5\n")
    with pytest.raises(
        InvalidConfiguration,
        match=rf"^{conf}: line 5: maxMesageSize is not .*; did you mean maxMessageSize\?$",
    ):
        Configuration.load(conf)
    conf.write_text("clusterName=a\nmaxMessageSize=much\n")
    with pytest.raises(InvalidConfiguration, match=rf"^{conf}: line 2: maxMessageSize: 'much' is"):
        Configuration.load(conf)
    toml.write_text("foo = 1\n")
    with pytest.raises(InvalidConfiguration, match=rf"^{toml}: foo is not a configuration key"):
        Configuration.load(toml)

"""The admin client over TLS, blocking and for asyncio."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from magnetar import Admin, AdminUnreachable, AsyncAdmin, TlsAuthentication, TlsPolicy
from tests.authority import Authority
from tests.unit.client.admin.web import Answer, ScriptedWeb, scripted_web

List = Callable[[str, TlsPolicy, TlsAuthentication | None], list[str]]


def list_blocking(url: str, tls: TlsPolicy, authentication: TlsAuthentication | None) -> list[str]:
    with Admin(url, tls=tls, authentication=authentication) as admin:
        return admin.tenants.list()


def list_async(url: str, tls: TlsPolicy, authentication: TlsAuthentication | None) -> list[str]:
    async def body() -> list[str]:
        async with AsyncAdmin(url, tls=tls, authentication=authentication) as admin:
            return await admin.tenants.list()

    return asyncio.run(body())


both = pytest.mark.parametrize("list_tenants", [list_blocking, list_async])


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def web(authority: Authority) -> Iterator[ScriptedWeb]:
    """Serves those only that show a certificate of the authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("localhost", host="localhost"))
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    with scripted_web(context) as web:
        yield web


@both
def test_both_sides_prove_who_they_are(
    web: ScriptedWeb, authority: Authority, list_tenants: List
) -> None:
    web.answers = [Answer(200, '["t"]')]
    tls = TlsPolicy(trust_certs=authority.certificate)
    alice = TlsAuthentication(*authority.issue("alice"))
    assert list_tenants(web.url, tls, alice) == ["t"]


@both
def test_a_server_that_is_not_trusted_gets_no_request(
    web: ScriptedWeb, authority: Authority, tmp_path: Path, list_tenants: List
) -> None:
    tls = TlsPolicy(trust_certs=Authority(tmp_path, "stranger").certificate)
    with pytest.raises(AdminUnreachable, match="certificate verify failed"):
        list_tenants(web.url, tls, TlsAuthentication(*authority.issue("alice")))
    assert not web.asked


@both
def test_a_redirect_out_of_tls_is_not_followed(
    web: ScriptedWeb, authority: Authority, list_tenants: List
) -> None:
    tls = TlsPolicy(trust_certs=authority.certificate)
    alice = TlsAuthentication(*authority.issue("alice"))
    with scripted_web() as plain:
        web.answers = [Answer(307, "", (("Location", f"{plain.url}/admin/v2/tenants"),))]
        with pytest.raises(AdminUnreachable, match="without TLS"):
            list_tenants(web.url, tls, alice)
        assert not plain.asked

"""All providers in one place, for the binary protocol and for HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from magnetar.broker.authentication.provider import Credential, Provider
from magnetar.broker.authentication.verifier import ThreadedVerifier
from magnetar.errors import InvalidConfiguration, Unauthenticated
from magnetar.model.caller import ANONYMOUS, Caller
from magnetar.rules.handshake import Identity, check_original
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration

_PACKAGE: Final = "org.apache.pulsar.broker.authentication."
_METHODS: Final = ("tls", "token", "basic")
_CLASSES: Final = {
    f"{_PACKAGE}AuthenticationProviderTls": "tls",
    f"{_PACKAGE}AuthenticationProviderToken": "token",
    f"{_PACKAGE}AuthenticationProviderBasic": "basic",
}
METHOD_HEADER: Final = "x-pulsar-auth-method-name"
ORIGINAL_HEADER: Final = "x-original-principal"


class Authenticator:
    def __init__(
        self,
        providers: Mapping[str, Provider],
        clock: Clock,
        *,
        is_enabled: bool = True,
        anonymous_role: str = "",
        is_strict: bool = False,
        proxy_roles: frozenset[str] | None = None,
    ) -> None:
        self.is_enabled = is_enabled
        self.anonymous_role = anonymous_role
        self.proxy_roles = proxy_roles
        """Roles that may speak for others; None without authorization."""
        self._providers = providers
        self._clock = clock
        self._is_strict = is_strict
        self._slow = ThreadedVerifier()

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self._providers)

    async def prove(self, method: str, credential: Credential, host: str) -> Identity:
        """Raise Unauthenticated when the method's provider does not accept it."""
        provider = self._providers[method]
        verify = partial(provider.authenticate, credential, now_ms=self._clock.now_ms())
        return await self._slow.run(host, verify) if provider.is_slow(credential) else verify()

    def close(self) -> None:
        self._slow.close()

    async def authenticate_http(
        self, headers: Mapping[str, str], certificate_name: str | None, host: str
    ) -> Caller:
        """Who sends a request, and for whom."""
        if not self.is_enabled:
            return ANONYMOUS
        caller = await self._find_caller(headers, certificate_name, host)
        if self.proxy_roles is not None:
            check_original(caller, self.proxy_roles, may_repeat=True)
        return caller

    async def _find_caller(
        self, headers: Mapping[str, str], certificate_name: str | None, host: str
    ) -> Caller:
        """A client may name its method, else the first that accepts counts."""
        original = headers.get(ORIGINAL_HEADER) or None
        credential = Credential(
            header=headers.get("authorization"), certificate_name=certificate_name
        )
        method = headers.get(METHOD_HEADER)
        if method is not None:
            if method not in self._providers:
                raise Unauthenticated(f"Unsupported authentication method: [{method}].")
            return Caller((await self.prove(method, credential, host)).role, original)
        if self._is_strict:
            raise Unauthenticated("Authentication method missing")
        sent, reasons = _methods_sent(credential), []
        for each in self._providers:
            try:
                return Caller((await self.prove(each, credential, host)).role, original)
            except Unauthenticated as refusal:
                if each in sent:  # the others speak of a credential of another kind
                    reasons.append(f"{each}: {refusal.sentence}")
        if self.anonymous_role:
            return Caller(self.anonymous_role, original, is_anonymous=True)
        why = "; ".join(reasons) or (
            f"the broker accepts {', '.join(self._providers)}, and no such credentials were sent"
        )
        raise Unauthenticated(f"Authentication required: {why}")


def _methods_sent(credential: Credential) -> frozenset[str]:
    """What a request tries to prove itself by."""
    scheme = (credential.header or "").partition(" ")[0].lower()
    of_header = {"bearer": ("token",), "basic": ("basic",)}.get(scheme, ())
    return frozenset((*of_header, *(("tls",) if credential.certificate_name else ())))


def make_authenticator(config: Configuration, clock: Clock) -> Authenticator:
    """Raise InvalidConfiguration for a provider that is not there or has nothing to judge by."""
    if not config.authenticationEnabled:
        return Authenticator({}, clock, is_enabled=False)
    methods = dict.fromkeys(map(_method_of, config.authenticationProviders))
    if not methods:
        raise InvalidConfiguration(
            "authenticationEnabled needs authenticationProviders: some of tls, token, basic"
        )
    return Authenticator(
        {method: _make_provider(method, config) for method in methods},
        clock,
        anonymous_role=config.anonymousUserRole,
        is_strict=config.strictAuthMethod,
        proxy_roles=frozenset(config.proxyRoles) if config.authorizationEnabled else None,
    )


def _make_provider(method: str, config: Configuration) -> Provider:
    match method:
        case "tls":
            from magnetar.broker.authentication.certificate import make_certificate_provider

            return make_certificate_provider(config)
        case "token":
            from magnetar.broker.authentication.token import make_token_provider

            return make_token_provider(config)
        case _:
            from magnetar.broker.authentication.basic import make_basic_provider

            return make_basic_provider(config)


def _method_of(written: str) -> str:
    method = _CLASSES.get(written, written)
    if method not in _METHODS:
        raise InvalidConfiguration(
            f"authenticationProviders: {written} is not one of tls, token, basic"
            " or Pulsar's class of the same"
        )
    return method

"""Who the command line is, and whom it trusts: credentials and TLS from options."""

from __future__ import annotations

from magnetar import (
    Authentication,
    BasicAuthentication,
    TlsAuthentication,
    TlsPolicy,
    TokenAuthentication,
)
from magnetar.cli.command import Options, UsageError
from magnetar.runtime.credential import load_text


def make_authentication(options: Options) -> Authentication | None:
    """From --token, --basic or a client certificate; a token's place is read at each connect."""
    if options.token and options.basic:
        raise UsageError("magnetar: give one of --token and --basic")
    if options.token:
        place = options.token
        load_text("--token", place)
        return TokenAuthentication(lambda: load_text("--token", place))
    if options.basic:
        user, separator, password = load_text("--basic", options.basic).partition(":")
        if not separator:
            raise UsageError("magnetar: --basic is user:password")
        return BasicAuthentication(user, password)
    if options.tls_cert:
        return TlsAuthentication(options.tls_cert, options.tls_key)
    return None


def make_tls(options: Options) -> TlsPolicy:
    if bool(options.tls_cert) != bool(options.tls_key):
        raise UsageError("magnetar: --tls-cert and --tls-key belong together")
    return TlsPolicy(
        trust_certs=options.tls_trust or None,
        certificate=options.tls_cert or None,
        key=options.tls_key or None,
        allow_insecure=options.tls_insecure,
        verify_hostname=not options.tls_any_host,
    )

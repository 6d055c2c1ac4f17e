"""TLS on the broker's ports: certificates from files, looked at again while connections last."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from magnetar.errors import InvalidConfiguration
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger

_log = Logger(__name__)

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the certificates are and what is asked of clients."""

    certificate: Path
    key: Path
    trust: Path | None
    is_client_required: bool
    versions: tuple[str, ...] = ()
    ciphers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unsafe = [each for each in self.versions if each not in _VERSIONS]
        if unsafe:
            raise InvalidConfiguration(
                f"tlsProtocols: {', '.join(unsafe)} is not served, only {' and '.join(_VERSIONS)}"
            )

    def stamps(self) -> tuple[tuple[int, int, int], ...]:
        """What tells a changed file from an unchanged one."""
        paths = [each for each in (self.certificate, self.key, self.trust) if each is not None]
        found = [path.stat() for path in paths]
        return tuple((each.st_ino, each.st_size, each.st_mtime_ns) for each in found)

    def load(self) -> ssl.SSLContext:
        """Raise InvalidConfiguration for a file that is missing, unreadable or of another key."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        versions = sorted(_VERSIONS[each] for each in self.versions or tuple(_VERSIONS))
        context.minimum_version, context.maximum_version = versions[0], versions[-1]
        _set_ciphers(context, self.ciphers)
        _load("tlsCertificateFilePath", self.certificate, lambda: self._load_chain(context))
        if self.trust is not None:
            trust = self.trust
            load = lambda: context.load_verify_locations(cafile=trust)  # noqa: E731
            _load("tlsTrustCertsFilePath", trust, load)
            is_required = self.is_client_required
            context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
        return context

    def _load_chain(self, context: ssl.SSLContext) -> None:
        if not self.key.is_file():
            raise InvalidConfiguration(f"tlsKeyFilePath: {self.key} is not a file")
        # An encrypted key would prompt at the terminal, and a server has none.
        context.load_cert_chain(self.certificate, self.key, password=lambda: "")


def _load(key: str, path: Path, load: Callable[[], None]) -> None:
    try:
        load()
    except ssl.SSLError as error:
        reason = error.reason or "not PEM, or not of the key in tlsKeyFilePath"
        raise InvalidConfiguration(f"{key}: {path}: {reason}") from None
    except OSError as error:
        raise InvalidConfiguration(f"{key}: {path}: {error.strerror or error}") from None


def _set_ciphers(context: ssl.SSLContext, names: Sequence[str]) -> None:
    """Of TLS 1.2; those of 1.3 are always on. Names may be OpenSSL's or the standard's."""
    chosen = [_openssl_name(each) for each in names if not _is_of_13(each)]
    try:
        context.set_ciphers(":".join(chosen) if chosen else _CIPHERS)
    except ssl.SSLError:
        raise InvalidConfiguration(f"tlsCiphers: none of {', '.join(names)} is known") from None


def _is_of_13(name: str) -> bool:
    return name.startswith("TLS_") and "_WITH_" not in name


def _openssl_name(name: str) -> str:
    """`TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` is `ECDHE-RSA-AES128-GCM-SHA256`."""
    if not name.startswith("TLS_"):
        return name
    plain = name.removeprefix("TLS_").replace("_WITH_", "_").replace("AES_", "AES")
    return plain.replace("POLY1305_SHA256", "POLY1305").replace("_", "-")


class ReloadingContext(ssl.SSLContext):
    """A context whose connections are made by the newest certificates.

    Servers keep one context for all their life and ask it for each new connection; this one hands
    the question on. A whole new context replaces the old one at once, trusted signers included;
    connections that are there keep theirs.
    """

    _files: TlsFiles
    _clock: Clock
    _check_s: int
    _checked_s: float
    _stamps: tuple[tuple[int, int, int], ...]
    _newest: ssl.SSLContext

    @classmethod
    def open(cls, files: TlsFiles, clock: Clock, *, check_s: int) -> Self:
        """`check_s` seconds pass at least between two looks at the files; 0 looks each time."""
        context = cls(ssl.PROTOCOL_TLS_SERVER)
        context._files = files
        context._clock = clock
        context._check_s = check_s
        context._stamps = _stamps_of(files)
        context._newest = files.load()
        context._checked_s = clock.monotonic()
        return context

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        if self._clock.monotonic() - self._checked_s >= self._check_s:
            self._look()
        return self._newest.wrap_bio(*arguments, **options)

    def _look(self) -> None:
        """What cannot be read is logged and changes nothing."""
        self._checked_s = self._clock.monotonic()
        try:
            stamps = self._files.stamps()
            if stamps == self._stamps:
                return
            self._newest = self._files.load()
        except (InvalidConfiguration, OSError) as error:
            _log.error("certificates were not reloaded", reason=str(error))
            return
        self._stamps = stamps
        _log.info("certificates reloaded", file=self._files.certificate)


def _stamps_of(files: TlsFiles) -> tuple[tuple[int, int, int], ...]:
    """Taken before the files are read: a change in between is seen at the next look."""
    try:
        return files.stamps()
    except OSError:
        return ()  # loading tells what is wrong


def open_broker_tls(settings: Configuration, clock: Clock) -> ReloadingContext | None:
    """For brokerServicePortTls, when there is one."""
    if settings.brokerServicePortTls is None:
        return None
    return _open(settings, clock, settings.tlsProtocols, settings.tlsCiphers)


def open_web_tls(settings: Configuration, clock: Clock) -> ReloadingContext | None:
    """For webServicePortTls, when there is one."""
    if settings.webServicePortTls is None:
        return None
    versions = settings.webServiceTlsProtocols or settings.tlsProtocols
    return _open(settings, clock, versions, settings.webServiceTlsCiphers or settings.tlsCiphers)


class Contexts(NamedTuple):
    """Of TLS; None where it is not served."""

    broker: ssl.SSLContext | None
    web: ssl.SSLContext | None


def open_contexts(settings: Configuration, clock: Clock) -> Contexts:
    return Contexts(open_broker_tls(settings, clock), open_web_tls(settings, clock))


def check_tls(settings: Configuration, *, has_plain: bool, has_web: bool) -> None:
    """What was asked for must be there: TLS that silently is not would be worse than none."""
    ports = (settings.brokerServicePortTls, settings.webServicePortTls)
    if settings.tlsEnabled and ports == (None, None):
        raise InvalidConfiguration("tlsEnabled needs brokerServicePortTls or webServicePortTls")
    if not has_plain and settings.brokerServicePortTls is None:
        raise InvalidConfiguration("brokerServicePort or brokerServicePortTls must be set")
    if not has_web and settings.webServicePortTls is None:
        raise InvalidConfiguration("webServicePort or webServicePortTls must be set")


def _open(
    settings: Configuration, clock: Clock, versions: tuple[str, ...], ciphers: tuple[str, ...]
) -> ReloadingContext:
    if not settings.tlsCertificateFilePath or not settings.tlsKeyFilePath:
        raise InvalidConfiguration("TLS needs tlsCertificateFilePath and tlsKeyFilePath")
    is_required = settings.tlsRequireTrustedClientCertOnConnect
    trust = settings.tlsTrustCertsFilePath
    if is_required and not trust:
        raise InvalidConfiguration(
            "tlsRequireTrustedClientCertOnConnect needs tlsTrustCertsFilePath"
        )
    if is_required and settings.tlsAllowInsecureConnection:
        raise InvalidConfiguration(
            "tlsRequireTrustedClientCertOnConnect and tlsAllowInsecureConnection contradict"
        )
    files = TlsFiles(
        Path(settings.tlsCertificateFilePath),
        Path(settings.tlsKeyFilePath),
        Path(trust) if trust and not settings.tlsAllowInsecureConnection else None,
        is_client_required=is_required,
        versions=versions,
        ciphers=ciphers,
    )
    return ReloadingContext.open(files, clock, check_s=settings.tlsCertRefreshCheckDurationSec)

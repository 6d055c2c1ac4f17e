"""How a connection begins and how long its credentials last: CONNECT, AUTH_RESPONSE, and the
checks in between.
"""

from __future__ import annotations

import asyncio
from typing import Final, assert_never

from magnetar import __version__
from magnetar.broker.authentication import Authenticator, Credential
from magnetar.broker.client_socket import ClientSocket
from magnetar.errors import TooManyRequests, Unauthenticated, Unauthorized
from magnetar.model.caller import ANONYMOUS, Caller
from magnetar.rules.handshake import (
    Admit,
    Challenge,
    Close,
    Credentials,
    Lend,
    Prove,
    Refuse,
    Stage,
    Stay,
    Turn,
    apply_admission,
    apply_check,
    apply_refusal,
    apply_response,
    check_original,
    choose_judge,
)
from magnetar.runtime.clock import Clock, Timer
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope
from magnetar.wire.command import (
    NO_REQUEST,
    PROTOCOL_VERSION,
    AuthData,
    AuthMethod,
    BaseCommand,
    CommandAuthChallenge,
    CommandAuthResponse,
    CommandConnect,
    CommandConnected,
    FeatureFlags,
    error,
    make_command,
)
from magnetar.wire.frame import FRAME_PADDING_BYTES, FrameDecoder

_log = Logger(__name__)

REFRESH: Final = b"PulsarAuthRefresh"
"""What a challenge says that asks a connected client for fresh credentials."""
_NO_METHOD: Final = "none"
_JUDGING: Final = "credentials"


class Handshake:
    """Owns what a client says of itself, and its credentials. What it decides stands in
    `rules/handshake.py`.
    """

    def __init__(
        self,
        socket: ClientSocket,
        decoder: FrameDecoder,
        authentication: Authenticator,
        *,
        config: Configuration,
        clock: Clock,
        tasks: TaskScope,
    ) -> None:
        self.client_version = ""
        self.protocol_version = 0
        self.features = FeatureFlags()
        self.proxied_to = ""
        """The broker that the client takes itself to be led to, by a proxy."""
        self._socket = socket
        self._decoder = decoder
        self._authentication = authentication
        self._config = config
        self._clock = clock
        self._tasks = tasks
        self._credentials = Credentials()
        self._check: Timer | None = None
        self._judging: asyncio.Task[None] | None = None

    @property
    def caller(self) -> Caller:
        return self._credentials.caller

    @property
    def is_done(self) -> bool:
        return self._credentials.stage in (Stage.ADMITTED, Stage.ASKED)

    def close(self) -> None:
        self._stop_checks()
        if self._judging is not None:
            self._judging.cancel()

    def _stop_checks(self) -> None:
        if self._check is not None:
            self._check.cancel()

    def on_connect(self, connect: CommandConnect) -> None:
        self.client_version = connect.client_version
        self.protocol_version = min(connect.protocol_version, PROTOCOL_VERSION)
        self.features = connect.feature_flags
        self.proxied_to = connect.proxy_to_broker_url
        if self._authentication.is_enabled:
            self._socket.pause(_JUDGING)  # a password takes a while: what follows waits for it
            self._judging = self._tasks.start(self._connect(connect), "connect")
        else:
            self._take(apply_admission(self._credentials, ANONYMOUS))

    async def _connect(self, connect: CommandConnect) -> None:
        try:
            turn = await self._judge(connect)
            self._check_roles(turn[0].caller, is_proxy=bool(connect.proxy_version))
        except (Unauthenticated, Unauthorized, TooManyRequests) as refusal:
            turn = self._refused(refusal)
        self._take(turn)
        self._socket.resume(_JUDGING)

    async def on_response(self, response: CommandAuthResponse) -> None:
        """Fresh credentials; from a client that never brought any they prove nothing."""
        if not self._authentication.is_enabled:
            return
        try:
            if not self._credentials.method:
                raise Unauthenticated("fresh credentials from a client that brought none before")
            credential = self._credential(response.response.auth_data)
            fresh = await self._authentication.prove(
                self._credentials.method, credential, self._socket.host
            )
            turn = apply_response(self._credentials, fresh)
        except (Unauthenticated, TooManyRequests) as refusal:
            turn = self._refused(refusal)
        self._take(turn)

    # ------------------------------------------------------------------ judging

    async def _judge(self, connect: CommandConnect) -> Turn:
        authentication = self._authentication
        judge = choose_judge(
            _method_of(connect), authentication.methods, authentication.anonymous_role
        )
        original = connect.original_principal or None
        match judge:
            case Lend(role):
                caller = Caller(role, original, is_anonymous=True)
                return apply_admission(self._credentials, caller)
            case Prove(method):
                credential = self._credential(connect.auth_data)
                own = await authentication.prove(method, credential, self._socket.host)
                if original is not None and self._config.authenticateOriginalAuthData:
                    return await self._judge_original(connect, own.role)
                return apply_admission(
                    self._credentials,
                    Caller(own.role, original),
                    method=method,
                    expires_ms=own.expires_ms,
                    can_refresh=connect.feature_flags.supports_auth_refresh,
                )
            case _:
                assert_never(judge)

    async def _judge_original(self, connect: CommandConnect, proxy_role: str) -> Turn:
        """The proxy hands on what its client brought: its word alone is not enough."""
        authentication = self._authentication
        method = connect.original_auth_method or _NO_METHOD
        judge = choose_judge(method, authentication.methods, authentication.anonymous_role)
        match judge:
            case Lend(role):
                caller = Caller(proxy_role, role, is_anonymous=True)
                return apply_admission(self._credentials, caller)
            case Prove(method):
                data = connect.original_auth_data.encode()
                found = await authentication.prove(method, Credential(data=data), self._socket.host)
                return apply_admission(
                    self._credentials,
                    Caller(proxy_role, found.role),
                    method=method,
                    expires_ms=found.expires_ms,
                    can_refresh=connect.feature_flags.supports_auth_refresh,
                    is_original_proven=True,
                )
            case _:
                assert_never(judge)

    def _check_roles(self, caller: Caller, *, is_proxy: bool) -> None:
        proxy_roles = self._authentication.proxy_roles
        if proxy_roles is None:
            return
        check_original(caller, proxy_roles, may_repeat=False)
        if is_proxy and caller.role not in proxy_roles:
            raise Unauthorized("Only a proxy may give the version of a proxy")

    def _credential(self, data: bytes) -> Credential:
        return Credential(data=data, certificate_name=self._socket.certificate_name)

    def _refused(self, refusal: Unauthenticated | Unauthorized | TooManyRequests) -> Turn:
        _log.warning("authentication failed", address=self._socket.address, reason=refusal.sentence)
        return apply_refusal(self._credentials, refusal)

    # ------------------------------------------------------------------ acting

    def _take(self, turn: Turn) -> None:
        socket = self._socket
        self._credentials, step = turn
        match step:
            case Admit():
                # Its credentials are good: more than those may be sent.
                message_bytes_max = self._config.maxMessageSize
                self._decoder.frame_bytes_max = message_bytes_max + FRAME_PADDING_BYTES
                socket.send_command(_connected(self._config, self.protocol_version))
                self._schedule()
            case Challenge():
                method, version = self._credentials.method, self.protocol_version
                socket.send_command(_challenge(method, version))
                self._schedule()
            case Stay():
                self._schedule()
            case Refuse(code, sentence):
                socket.send_command(error(NO_REQUEST, code, sentence))
                socket.close()
            case Close(reason):
                _log.info("connection closed", address=socket.address, reason=reason)
                socket.close()
            case _:
                assert_never(step)

    def _schedule(self) -> None:
        """Look again later; only credentials that can run out are looked at."""
        self._stop_checks()
        if self._credentials.expires_ms is None:
            return
        interval = self._config.authenticationRefreshCheckSeconds
        self._check = self._clock.call_later(interval, self._on_check)

    def _on_check(self) -> None:
        if not self._socket.closed:
            now_ms = self._clock.now_ms()
            self._take(apply_check(self._credentials, now_ms=now_ms))


def _method_of(connect: CommandConnect) -> str:
    if connect.HasField("auth_method_name"):
        return connect.auth_method_name
    if connect.HasField("auth_method"):  # clients of the first years
        return AuthMethod.Name(connect.auth_method).removeprefix("AuthMethod").lower()
    return _NO_METHOD


def _challenge(method: str, protocol_version: int) -> BaseCommand:
    return make_command(
        CommandAuthChallenge(
            protocol_version=protocol_version,
            challenge=AuthData(auth_method_name=method, auth_data=REFRESH),
        )
    )


def _connected(config: Configuration, protocol_version: int) -> BaseCommand:
    watchers = config.enableBrokerSideSubscriptionPatternEvaluation
    return make_command(
        CommandConnected(
            server_version=f"Magnetar {__version__}",
            protocol_version=protocol_version,
            max_message_size=config.maxMessageSize,
            feature_flags=FeatureFlags(
                supports_auth_refresh=True,
                supports_broker_entry_metadata=True,
                supports_partial_producer=True,
                supports_topic_watchers=watchers,
                supports_get_partitioned_metadata_without_auto_creation=True,
                supports_topic_watcher_reconcile=watchers,
                supports_scalable_topics=config.scalableTopicsEnabled,
                supports_tc_metadata_discovery=config.transactionCoordinatorEnabled
                and config.transactionCoordinatorScalableTopicsEnabled,
            ),
        )
    )

"""The transactions of a broker: the coordinators that it runs, and the topics that take part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from magnetar.broker.broker_call import BrokerCalls, OwnerPort
from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.foreign import ForeignTransactions
from magnetar.broker.keyed_lock import KeyedLock
from magnetar.broker.ownership import Owner
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.resource import PartitionedTopics
from magnetar.broker.transaction.adoption import adopt
from magnetar.broker.transaction.batch import Batches
from magnetar.broker.transaction.coordination import LocalCoordination
from magnetar.broker.transaction.coordinator import LiveCoordinator
from magnetar.broker.transaction.directory import ParticipantDirectory
from magnetar.broker.transaction.journal import Journals
from magnetar.broker.transaction.participant import Participant, needs_journal
from magnetar.broker.transaction.remote import Coordination
from magnetar.broker.transaction.watch import LOOK_S, AssignmentFeed
from magnetar.errors import (
    BrokerError,
    Conflict,
    CoordinatorNotFound,
    NoOwner,
    ServiceNotReady,
    TransactionsDisabled,
)
from magnetar.ledger.pace import CursorPace
from magnetar.ledger.store import LedgerStore
from magnetar.metadata.store import MetadataStore
from magnetar.model.limit import Limits
from magnetar.model.log_path import coordinator_journal
from magnetar.model.name import TopicName
from magnetar.model.transaction import ASSIGN_TOPIC
from magnetar.rules.system import takes_transactions
from magnetar.rules.transaction.buffer import CallerBytes
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope

_log = Logger(__name__)

_ROUND_S: Final = 5.0
_LOST_AFTER_MS: Final = 10_000
"""How long after its deadline a topic asks what has become of a transaction."""


class TransactionService:
    def __init__(
        self,
        catalog: TopicCatalog,
        calls: BrokerCalls,
        partitioned: PartitionedTopics,
        *,
        config: Configuration,
        limits: Limits,
        clock: Clock,
        tasks: TaskScope,
        store: MetadataStore,
        ledgers: LedgerStore,
        foreign: ForeignTransactions | None = None,
    ) -> None:
        """`foreign`: where brokers of another kind may have served the topics before."""
        self._foreign = foreign
        self._catalog = catalog
        self._ownership = calls.ownership
        self._partitioned = partitioned
        self._config = config
        self._limits = limits
        self._clock = clock
        self._tasks = tasks
        pace = CursorPace(clock)
        self.batches: Final = (
            Batches("pulsar_txn_tc_bufferedwriter"),
            Batches("pulsar_txn_pending_ack_store_bufferedwriter"),
        )
        self._journals, self._topic_journals = (
            Journals(clock, ledgers, store, pace, each) for each in self.batches
        )
        self._caller_bytes = CallerBytes()
        self.participants: Final = ParticipantDirectory(catalog, calls)
        self._coordination: OwnerPort[Coordination] = OwnerPort(
            calls, Coordination, lambda topic: LocalCoordination(self, topic.partition_index)
        )
        self.coordinators: Final[dict[int, LiveCoordinator]] = {}
        """Those that run here."""
        self.assignment_feed: Final = AssignmentFeed(self.count, self.assignments)
        self._loading = KeyedLock()
        self._is_resumed = False
        """Whether every coordinator that is this broker's to run was found; where brokers share
        them, that changes.
        """

    @property
    def is_enabled(self) -> bool:
        return self._config.transactionCoordinatorEnabled

    def check_enabled(self) -> None:
        if not self.is_enabled:
            raise TransactionsDisabled("Transactions are not enabled.")

    def start(self) -> None:
        """Go on with what an earlier process left, and look round from then on."""
        if self.is_enabled:
            self._tasks.start(self.resume(), name="transaction coordinators")
            self._tasks.periodic(_ROUND_S, self.look_round, "transactions")
            self._tasks.periodic(LOOK_S, self.assignment_feed.look, "coordinator watches")

    # ------------------------------------------------------------------ topics

    async def open_topic(self, topic: PersistentTopic) -> Participant | None:
        """A topic's part in transactions; the broker's own topics have none. What earlier ones left
        is known also where there are no coordinators: nothing that was aborted is delivered.
        """
        if not takes_transactions(topic.name):
            return None
        adopted = None
        if self._foreign is not None:
            adopted = await adopt(topic, self._foreign, self._clock.now_ms())
        is_needed = needs_journal(topic.log.record.properties)
        if not self.is_enabled and not is_needed and adopted is None:
            return None
        participant = await Participant.open(topic, self._topic_journals, self._caller_bytes)
        if adopted is not None:
            await participant.adopt(adopted)
        if participant.open_ids and not self.is_enabled:
            _log.warning(
                "readers wait at open transactions: transactionCoordinatorEnabled is off",
                topic=topic.name.full,
                transactions=len(participant.open_ids),
            )
        return participant

    # ------------------------------------------------------------------ coordinators

    async def count(self) -> int:
        """How many coordinators the cluster has."""
        found = await self._partitioned.get(ASSIGN_TOPIC)
        if found is None:
            wanted = self._config.transactionCoordinatorScalableTopicsParallelism
            try:
                await self._partitioned.create(ASSIGN_TOPIC, wanted)
                return wanted
            except Conflict:  # another broker was quicker
                return await self.count()
        return found.partitions

    async def assignments(self) -> Mapping[int, Owner]:
        """Which broker runs each coordinator; one whose owner is not known is left out."""
        found: dict[int, Owner] = {}
        for number in range(await self.count()):
            try:
                found[number] = await self._ownership.owner_of(ASSIGN_TOPIC.partition(number))
            except NoOwner:
                continue
        return found

    async def coordinator(self, number: int) -> LiveCoordinator:
        """The coordinator of a number, loaded when this broker is to run it."""
        self.check_enabled()
        found = self.coordinators.get(number)
        if found is not None and not found.is_closed:
            return found
        await self.check_exists(number)
        async with self._loading.hold(str(number)):
            found = self.coordinators.get(number)
            if found is not None and not found.is_closed:
                return found
            owner = await self._ownership.owner_of(ASSIGN_TOPIC.partition(number))
            if not owner.is_self:
                raise ServiceNotReady(f"Coordinator {number} runs on {owner.service_url}")
            if self._catalog.closing:
                raise ServiceNotReady("The broker is closing")
            if found is not None:
                await found.close()
            return await self._load(number, owner)

    async def _load(self, number: int, owner: Owner) -> LiveCoordinator:
        started_ms = self._clock.now_ms()
        journal, records = await self._journals.open(coordinator_journal(number), owner.term)
        live = self.coordinators[number] = LiveCoordinator.resume(
            number,
            journal,
            records,
            self.participants,
            clock=self._clock,
            config=self._config,
            limits=self._limits,
            started_ms=started_ms,
        )
        return live

    async def find(self, number: int) -> LiveCoordinator:
        """As `coordinator`; raise CoordinatorNotFound when it runs elsewhere."""
        try:
            return await self.coordinator(number)
        except ServiceNotReady as elsewhere:
            raise CoordinatorNotFound(elsewhere.sentence) from None

    def reach(self, number: int, *, is_relayed: bool) -> Coordination:
        """What is asked of a coordinator: only here, or wherever it runs."""
        if is_relayed:
            return self._coordination.at(ASSIGN_TOPIC.partition(number))
        return LocalCoordination(self, number)

    async def check_exists(self, number: int) -> None:
        self.check_enabled()
        if not 0 <= number < await self.count():
            raise CoordinatorNotFound(f"There is no coordinator {number}")

    async def resume(self) -> None:
        """Run the coordinators that have anything to go on with, and are this broker's."""
        is_resumed = True
        for number in range(await self.count()):
            try:
                owner = await self._ownership.owner_of(ASSIGN_TOPIC.partition(number))
                if owner.is_self and await self._journals.exists(coordinator_journal(number)):
                    await self.coordinator(number)
            except BrokerError as failure:
                is_resumed = False
                _log.warning("coordinator not run", number=number, reason=failure.sentence)
        self._is_resumed = is_resumed

    # ------------------------------------------------------------------ rounds

    async def look_round(self) -> None:
        """Leave coordinators that have moved, take over others, and ask what has become of
        transactions that were never ended.
        """
        for number, live in list(self.coordinators.items()):
            try:
                owner = await self._ownership.owner_of(ASSIGN_TOPIC.partition(number))
            except NoOwner:
                continue
            if live.is_closed or not owner.is_self:
                del self.coordinators[number]
                self._is_resumed = False
                await live.close()
        if self._ownership.is_shared or not self._is_resumed:
            await self.resume()
        for topic in list(self._catalog.topics.values()):
            participant = topic.transactions if isinstance(topic, PersistentTopic) else None
            if isinstance(participant, Participant) and participant.journal is not None:
                await self._end_lost(topic.name, participant)

    async def _end_lost(self, topic: TopicName, participant: Participant) -> None:
        """End what its coordinator does not know, or not as spanning this topic: a crash came
        between the two notes of its joining.
        """
        limit_ms = self._clock.now_ms() - _LOST_AFTER_MS
        for id_, deadline_ms in list(participant.open_ids.items()):
            if deadline_ms > limit_ms:
                continue
            try:
                finding = self.reach(id_.most, is_relayed=True).find(id_, topic.full)
                is_commit = await finding
                if is_commit is not None:
                    _log.warning("transaction lost", transaction=str(id_), topic=topic.full)
                    await participant.end(id_, is_commit=is_commit)
            except BrokerError as failure:  # asked again in the next round
                _log.info("outcome not known", transaction=str(id_), reason=failure.sentence)

    async def close(self) -> None:
        for live in list(self.coordinators.values()):
            await live.close()

"""The way of a run into the log: checked, judged for duplicates, appended, answered."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final

from magnetar.broker.dedup import Deduplicator, Verdict
from magnetar.broker.entry import delay_ms
from magnetar.broker.producer import Producer
from magnetar.errors import (
    BrokerError,
    NotAllowed,
    StorageFailed,
    TopicTerminated,
    TransactionsNotSupported,
)
from magnetar.model.position import Position
from magnetar.runtime.log import Log
from magnetar.wire.run import SendRun

if TYPE_CHECKING:
    from magnetar.broker.persistent import PersistentTopic

log = Log(__name__)

_NOWHERE: Final = 2**64 - 1


class Publication:
    def __init__(self, topic: PersistentTopic) -> None:
        self._topic = topic
        self._batch_max = topic.service.limits.batch_messages

    def publish(self, producer: Producer, run: SendRun) -> None:
        topic = self._topic
        if topic.termination.is_under_way:
            return  # its client is about to hear that it must send this elsewhere
        is_plain = not (producer.failed or run.corrupt or topic.is_choosy or topic.closed)
        is_usual = run.command is None and run.most <= self._batch_max
        if not is_plain or not is_usual or topic.termination.is_over:
            refusal = self._refusal_of(producer, run)
            if refusal is not None:
                producer.refuse(run, refusal)
                return
        if topic.dedup is None:
            self._append(producer, run)
        else:
            self._append_once(producer, run, topic.dedup)

    def _refusal_of(self, producer: Producer, run: SendRun) -> BrokerError | None:
        topic = self._topic
        if producer.failed:
            # Something before this is not stored: taking it would store it out of order.
            return StorageFailed("An earlier message could not be stored")
        if topic.termination.is_over:
            return TopicTerminated(f"Topic {topic.name} was terminated")
        if run.command is not None:
            if run.command.HasField("message_id"):
                return NotAllowed("Only a shadow topic accepts message ids")
            if run.command.marker:  # no message, so no consumer may get it
                return NotAllowed("Markers are for replication, which this broker does not do")
            if run.command.txnid_most_bits or run.command.txnid_least_bits:
                return TransactionsNotSupported("transactions are not supported by this broker")
        limit_ms = topic.policy.delayed_delivery_max_delay_ms
        if limit_ms > 0 and any(delay_ms(entry) > limit_ms for entry in run.entries):
            return NotAllowed(f"Exceeds max allowed delivery delay of {limit_ms} milliseconds")
        return topic.refusal_of(run)

    def _append_once(self, producer: Producer, run: SendRun, dedup: Deduplicator) -> None:
        verdicts = dedup.judge(producer.name, run)
        for verdict, group in groupby(range(len(run)), key=verdicts.__getitem__):
            indexes = list(group)
            part = run if len(indexes) == len(run) else run.select(indexes)
            match verdict:
                case Verdict.ACCEPT:
                    self._append(producer, part)
                case Verdict.DUPLICATE:
                    receipts = b"".join(
                        producer.receipts.encode([sequence], [highest], _NOWHERE, _NOWHERE)
                        for sequence, highest in zip(part.sequences, part.highests, strict=True)
                    )
                    producer.answer_at_once(part, receipts)
                case Verdict.UNKNOWN:
                    producer.refuse(
                        part, StorageFailed("Cannot determine whether the message is a duplicate")
                    )

    def _append(self, producer: Producer, run: SendRun) -> None:
        topic = self._topic
        size = sum(map(len, run.entries))
        messages = sum(run.counts)
        producer.rate.add(messages, size)
        topic.rate_in.add(messages, size)
        if run.command is not None and run.command.is_chunk:
            topic.chunks_in.add(1, size)
            producer.chunk_rate.add(1, size)
        if topic.publish_limiter is not None:
            topic.throttle(producer, messages, size)
        last = producer.last_run
        if (
            last is not None
            and last.command is run.command is None
            and topic.chain.extend(last.entries, run.entries, size)
        ):
            producer.expect_more(last, run, size)
            return
        producer.expect(run, size)
        done = partial(self._on_written, producer, run)
        topic.chain.append(run.entries, run.counts, done, size)

    def _on_written(
        self,
        producer: Producer,
        run: SendRun,
        first: Position | None,
        failure: BrokerError | None,
    ) -> None:
        if first is None:
            assert failure is not None
            if self._topic.dedup is not None:
                self._topic.dedup.on_failed(producer.name)
            log.warning("publish failed", topic=self._topic.name.full, reason=failure.sentence)
            producer.refuse(run, failure, is_expected=True)
            if not isinstance(failure, TopicTerminated):
                producer.fail()
            return
        if self._topic.dedup is not None:
            last = Position(first.ledger_id, first.entry_id + len(run) - 1)
            self._topic.dedup.on_persisted(producer.name, run, last)
        producer.answer(
            run,
            producer.receipts.encode(run.sequences, run.highests, first.ledger_id, first.entry_id),
        )

"""Deliberate bugs, each a change in one place, that the checkers must find."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Mutation:
    name: str
    module: str
    """Below the package."""
    text: str
    """Stands there exactly once."""
    instead: str
    focus: str = ""
    """Of the runs, where few of those that a seed draws freely show the bug."""
    on_bookies: bool = False
    """Whether brokers that share bookies show the bug; runs with files are shorter."""
    has_pauses: bool = False
    """Whether it shows where brokers stand still for longer than their sessions."""
    seed: int = 0
    """The first that showed the bug when it was last looked for; the search starts there."""

    def apply(self, package: Path) -> None:
        path = package / self.module
        source = path.read_text()
        assert source.count(self.text) == 1, f"{self.name}: {self.module} is not as it was"
        path.write_text(source.replace(self.text, self.instead))


MUTATIONS = (
    Mutation(
        "a receipt before the sync",
        "ledger/backends/file/extent.py",
        "        if self._sync:\n            self._file.sync()\n",
        "        if not self._sync:\n            self._file.sync()\n",
    ),
    Mutation(
        "a drain that forgets one parent",
        "rules/drain.py",
        "any(one in withheld or one not in drained for one in parents)",
        "any(one in withheld or one not in drained for one in tuple(parents)[1:])",
        focus="scalable/stream",
        seed=13,
    ),
    Mutation(
        "children that do not wait for their parents",
        "rules/drain.py",
        "        if waits[parents]:\n",
        "        if waits[parents] and not parents:\n",
        focus="scalable/stream",
        seed=7,
    ),
    Mutation(
        "a lease that is not taken again after its session ended",
        "broker/lease.py",
        "            elif record is None or not record.stat.created_by_self:\n",
        "            elif record is None and not held.term:\n",
        seed=139,
    ),
    Mutation(
        "deduplication that takes what it has for new",
        "broker/dedup.py",
        "            if sequence > pushed:\n",
        "            if sequence > persisted - 100:\n",
        seed=6,
    ),
    Mutation(
        "a split that publishes its children before the parent is sealed",
        "rules/phase.py",
        "tuple(SealSegment(each) for each in parents if each.id not in sealed)",
        "tuple(SealSegment(each) for each in parents if each.id in sealed)",
    ),
    Mutation(
        "an acknowledgement that is confirmed before it is stored",
        "ledger/cursor.py",
        "        if self._log is not None:\n            await self._log.flush()\n",
        "        if self._log is None:\n            return\n",
        seed=26,
    ),
    Mutation(
        "a producer that does not send again what was not confirmed",
        "client/topic_producer.py",
        "        for send in self.pending:\n",
        "        for send in ():\n",
        seed=2,
    ),
    Mutation(
        "a consumer whose unacknowledged messages are forgotten when it leaves",
        "rules/dispatch/shared.py",
        "        for position in member.pending:\n            self._enqueue(position)\n",
        "",
    ),
    Mutation(
        "a write that failed and is answered as stored",
        "ledger/backends/file/journal.py",
        "        self._answer([*group.done, *behind.done], refusal)\n",
        "        self._answer([*group.done, *behind.done], None)\n",
        seed=94,
    ),
    Mutation(
        "a key that goes to a second consumer while the first has messages of it",
        "rules/dispatch/keyshared.py",
        "        return owner if holder is owner else None\n",
        "        return owner if holder else None\n",
        focus="classic/key_shared",
    ),
    Mutation(
        "a negative acknowledgement after which the message does not come again",
        "rules/dispatch/shared.py",
        "                    self.release(member, position, None, is_final=False)\n"
        "                    self._enqueue_again(position)\n",
        "                    self.release(member, position, None, is_final=False)\n",
        seed=1,
    ),
    Mutation(
        "a negative acknowledgement after which all that is pending comes again",
        "rules/dispatch/shared.py",
        "            for position in positions or list(member.pending):\n",
        "            for position in list(member.pending):\n",
        seed=3,
    ),
    Mutation(
        "a lock that stands when it was given up without the store",
        "metadata/lock.py",
        "        if lock.may_stand:\n",
        "        if lock.may_stand and lock.state is LockState.VALID:\n",
        seed=41,
    ),
    Mutation(
        "a split elsewhere than its intent says",
        "rules/layout.py",
        "kind, at = ChangeKind.SPLIT, intent.children[1].range.first\n",
        "kind, at = ChangeKind.SPLIT, intent.children[1].range.first + 1\n",
    ),
    Mutation(
        "a cache that keeps what it knew before the connection was lost",
        "metadata/cache.py",
        "        if event in (SessionEvent.RECONNECTED, SessionEvent.SESSION_REESTABLISHED):\n"
        "            self.clear()\n",
        "        if event is SessionEvent.SESSION_LOST:\n            self.clear()\n",
        focus="classic/failover",
        on_bookies=True,
        seed=15,
    ),
    Mutation(
        "a sealed segment that does not tell what it has stored",
        "broker/handler/producer.py",
        "last_sequence_id=topic.last_sequence(request.producer_name)",
        "last_sequence_id=-1",
        focus="scalable/queue",
        seed=29,
    ),
    Mutation(
        "a batch of which acknowledged messages come again",
        "broker/dispatch/view.py",
        "        bits = [self.remaining.get(index) for index in indexes]\n",
        "        bits = [None for _ in indexes]\n",
        seed=10,
    ),
    Mutation(
        "a topic that forgets aborted messages when it is loaded",
        "broker/transaction/recovery.py",
        "        case Hidden():\n            buffer.hide(record)\n",
        "        case Hidden():\n            pass\n",
    ),
    Mutation(
        "a subscription that forgets what open transactions acknowledge when it is loaded",
        "broker/transaction/recovery.py",
        "            buffer.pending_on(name).replay(record)\n",
        "            pass\n",
        seed=34,
    ),
    Mutation(
        "a coordinator that does not go on with what was decided before a crash",
        "broker/transaction/coordinator.py",
        "                coordinator._deliver(each.id, stored)\n",
        "                pass\n",
    ),
    Mutation(
        "a recovery without a fence",
        "ledger/backends/bookkeeper/client.py",
        "encode_read(ledger, entry, flags=flags, key=key)",
        "encode_read(ledger, entry)",
        on_bookies=True,
        has_pauses=True,
        seed=11,
    ),
    Mutation(
        "a recovery that looks for nothing behind the last confirmed entry",
        "ledger/backends/bookkeeper/recovery.py",
        "present = _take_present(found)",
        "present = _take_present(found)[:0]",
        on_bookies=True,
    ),
    Mutation(
        "an ensemble change that is not recorded",
        "ledger/backends/bookkeeper/appender.py",
        "                await self._record_change(first, bookies)\n",
        "",
        on_bookies=True,
        seed=20,
    ),
    Mutation(
        "an ack quorum that is counted one short",
        "ledger/backends/bookkeeper/quorum.py",
        "by_rank[self._ack_quorum - 1] - 1",
        "by_rank[self._ack_quorum - 2] - 1",
        on_bookies=True,
        seed=16,
    ),
)

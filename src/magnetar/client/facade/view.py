"""Blocking twins of what is neither producer nor consumer: tables, layouts and transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Self, TypeVar

from magnetar.client.enlisting import Enlisting, TransactionHandle
from magnetar.client.event import LayoutChange
from magnetar.client.facade.loop import SyncHandle, waited
from magnetar.client.layout import AsyncLayoutChanges
from magnetar.client.reader import AsyncTableView
from magnetar.client.transaction import AsyncTransaction, TransactionState
from magnetar.model.transaction import TransactionId

T = TypeVar("T")


class TableView(SyncHandle[AsyncTableView[T]], Generic[T]):
    """Made by `client.table_view`: the latest value of every key."""

    @property
    def topic(self) -> str:
        return self._inner.topic

    def get(self, key: str, default: T | None = None) -> T | None:
        return self._call(lambda: self._inner.get(key, default))

    def keys(self) -> list[str]:
        return self._call(lambda: list(self._inner.keys()))

    def values(self) -> list[T]:
        return self._call(lambda: list(self._inner.values()))

    def items(self) -> list[tuple[str, T]]:
        return self._call(lambda: list(self._inner.items()))

    def __getitem__(self, key: str) -> T:
        return self._call(lambda: self._inner[key])

    def __contains__(self, key: object) -> bool:
        return self._call(lambda: key in self._inner)

    def __len__(self) -> int:
        return self._call(lambda: len(self._inner))

    def listen(self, listener: Callable[[str, T | None], None]) -> None:
        """Call for every key there is, then for every change; on the client's thread."""
        self._call(lambda: self._inner.listen(listener))

    refresh = waited(AsyncTableView.refresh)


class LayoutChanges(SyncHandle[AsyncLayoutChanges]):
    """Made by `client.layout_changes`: the segments there are, then every change of them."""

    @property
    def topic(self) -> str:
        return self._inner.topic

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> LayoutChange:
        async def body() -> LayoutChange | None:
            try:
                return await anext(self._inner)
            except StopAsyncIteration:  # cannot cross the border of a coroutine
                return None

        change = self._run(body())
        if change is None:
            raise StopIteration
        return change


class Transaction(SyncHandle[AsyncTransaction], TransactionHandle):
    """Made by `client.transaction`: `with` commits at the end, and aborts on an exception."""

    @property
    def id(self) -> TransactionId:
        """The number of its coordinator, and the number that it gave out."""
        return self._inner.id

    @property
    def state(self) -> TransactionState:
        return self._call(lambda: self._inner.state)

    @property
    def enlisting(self) -> Enlisting:
        return self._inner

    commit = waited(AsyncTransaction.commit)
    abort = waited(AsyncTransaction.abort)

    def __exit__(self, *raised: object) -> None:
        self._run(self._inner.__aexit__(*raised))

"""A wire between a broker and ZooKeeper that can be cut: nothing passes, nothing is closed."""

from __future__ import annotations

import selectors
import socket
import threading
from types import TracebackType
from typing import Self

from magnetar.testing.broker import HOST


class Cut:
    """Passes bytes on both ways until it is cut; what was on its way then stays unsent."""

    def __init__(self, target_port: int) -> None:
        self._target = (HOST, target_port)
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self._whole = threading.Event()
        self._whole.set()
        self._closed = threading.Event()
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._thread = threading.Thread(target=self._run, name="cut")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed.set()
        self._whole.set()
        self._thread.join()
        for each in (self._listener, *self._pairs):
            each.close()

    def cut(self) -> None:
        self._whole.clear()

    def mend(self) -> None:
        """Old connections end, as after a long outage; new ones pass."""
        self._whole.set()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._closed.is_set():
                was_cut = not self._whole.is_set()
                self._whole.wait()
                if was_cut:
                    self._drop_all(selector)
                for key, _ in selector.select(0.05):
                    if self._whole.is_set():
                        self._serve(selector, key.fileobj)

    def _serve(self, selector: selectors.BaseSelector, ready: object) -> None:
        if ready is self._listener:
            near, _ = self._listener.accept()
            try:
                far = socket.create_connection(self._target)
            except OSError:
                near.close()
                return
            for one, other in ((near, far), (far, near)):
                self._pairs[one] = other
                selector.register(one, selectors.EVENT_READ)
            return
        assert isinstance(ready, socket.socket)
        try:
            data = ready.recv(65_536)
            if data:
                self._pairs[ready].sendall(data)
                return
        except OSError:
            pass
        self._drop(selector, ready)

    def _drop(self, selector: selectors.BaseSelector, one: socket.socket) -> None:
        for each in (one, self._pairs.get(one)):
            if each is not None and self._pairs.pop(each, None) is not None:
                selector.unregister(each)
                each.close()

    def _drop_all(self, selector: selectors.BaseSelector) -> None:
        for each in list(self._pairs):
            self._drop(selector, each)

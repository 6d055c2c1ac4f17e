"""A door before the admin interface of a broker that writes down what goes through, or closes."""

from __future__ import annotations

import http.client
import threading
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Request(NamedTuple):
    method: str
    path: str
    size: int
    """Bytes of the question and of the answer."""
    query: str


class RequestLog(AbstractContextManager["RequestLog"]):
    """Requests since the last time that they were taken."""

    def __init__(self, admin_url: str) -> None:
        self._target = urlsplit(admin_url).netloc
        self._seen: list[Request] = []
        self.moving: str | None = None
        """What has this in its path is answered as a broker does while a topic moves."""
        log = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline()
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                log._hand_on(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> RequestLog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self) -> list[Request]:
        seen, self._seen = self._seen, []
        return seen

    def _hand_on(self, asked: BaseHTTPRequestHandler) -> None:
        body = asked.rfile.read(int(asked.headers.get("Content-Length", 0)))
        if self.moving is not None and self.moving in asked.path:
            asked.send_response(503)
            asked.send_header("Content-Length", "0")
            asked.end_headers()
            return
        connection = http.client.HTTPConnection(self._target, timeout=60)
        try:
            connection.request(asked.command, asked.path, body or None, dict(asked.headers))
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        path, _, query = asked.path.partition("?")
        self._seen.append(Request(asked.command, path, len(body) + len(data), query))
        asked.send_response(answer.status)
        asked.send_header("Content-Type", answer.headers.get("Content-Type", "text/plain"))
        asked.send_header("Content-Length", str(len(data)))
        asked.end_headers()
        asked.wfile.write(data)

"""An HTTP server that records what it is asked and answers what a test tells it to."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Asked(NamedTuple):
    method: str
    path: str
    body: str
    content_type: str | None
    authorization: str | None
    headers: Mapping[str, str]


class Answer(NamedTuple):
    status: int = 204
    body: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    hangs_up: bool = False
    waits_for: threading.Event | None = None


class ScriptedWeb:
    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.answers: list[Answer] = []
        self.url = ""
        self.connections = 0

    def take(self) -> Answer:
        return self.answers.pop(0) if self.answers else Answer()


@contextmanager
def scripted_web(tls: ssl.SSLContext | None = None) -> Iterator[ScriptedWeb]:
    web = ScriptedWeb()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            web.connections += 1
            super().setup()

        def _handle(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(size).decode()
            kind = self.headers.get("Content-Type")
            token = self.headers.get("Authorization")
            headers = dict(self.headers.items())
            web.asked.append(Asked(self.command, self.path, body, kind, token, headers))
            answer = web.take()
            if answer.waits_for is not None:
                answer.waits_for.wait()
            content = answer.body.encode()
            self.send_response(answer.status)
            for name, value in answer.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = answer.hangs_up

        do_GET = do_PUT = do_POST = do_DELETE = _handle

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    web.url = f"http://127.0.0.1:{server.server_address[1]}"
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        web.url = f"https://localhost:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

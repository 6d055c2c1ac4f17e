"""Lists that come name by name."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from magnetar.client.admin import AdminClient
from magnetar.client.error import AdminError, AdminUnreachable, ConfigurationError
from tests.unit.client.admin.web import Answer, scripted_web

LINES = (("Content-Type", "application/x-ndjson"),)
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
)


def test_lines_and_arrays_are_read_alike() -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        web.answers = [
            Answer(200, '"persistent://t/n/a"\n"persistent://t/n/b"\n', LINES),
            Answer(200, '["non-persistent://t/n/c"]', (("Content-Type", "application/json"),)),
        ]
        assert list(admin.topics.stream("t/n")) == [
            "persistent://t/n/a",
            "persistent://t/n/b",
            "non-persistent://t/n/c",
        ]
        assert [asked.path.partition("?")[0] for asked in web.asked] == [
            "/admin/v2/persistent/t/n",
            "/admin/v2/non-persistent/t/n",
        ]


def test_a_page_asks_for_no_more_than_it_takes() -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        web.answers = [Answer(200, '"a"\n"b"\n', LINES), Answer(200, '"c"\n"d"\n', LINES)]
        assert admin.topics.page("t/n", limit=3, after="persistent://t/n/x") == ["a", "b", "c"]
        first, second = (asked.path for asked in web.asked)
        assert "after=persistent%3A%2F%2Ft%2Fn%2Fx" in first and "limit=3" in first
        assert "after" not in second and "limit=1" in second


def test_scalable_topics_are_listed_by_mode() -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        web.answers = [Answer(200, '"topic://t/n/a"\n', LINES)]
        assert list(admin.topics.stream("t/n", domain="topic")) == ["topic://t/n/a"]
        assert web.asked[0].path.startswith("/admin/v2/namespaces/t/n/topics?mode=SCALABLE")


def test_other_calls_go_on_while_a_list_comes() -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        web.answers = [Answer(200, '"a"\n"b"\n', LINES), Answer(200, '{"persistent":2}')]
        names = admin.topics.stream("t/n", domain="persistent")
        assert next(names) == "a"
        assert admin.topics.count("t/n") == {"persistent": 2}
        assert list(names) == ["b"]


def test_a_refusal_and_a_redirect_are_followed_before_the_first_name() -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        web.answers = [
            Answer(307, "", (("Location", f"{web.url}/elsewhere"),)),
            Answer(404, '{"reason":"Namespace does not exist"}'),
        ]
        with pytest.raises(AdminError, match="Namespace does not exist"):
            next(admin.topics.stream("t/n"))
        assert web.asked[1].path == "/elsewhere"


@pytest.mark.parametrize(("limit", "after"), [(0, None), (-1, None), (5, "topic://t/n/x")])
def test_what_makes_no_sense_is_refused_without_a_call(limit: int, after: str | None) -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        with pytest.raises(ConfigurationError):
            admin.topics.page("t/n", limit=limit, after=after)
        assert web.asked == []


@contextmanager
def talker(*said: bytes) -> Iterator[str]:
    """Says its words to whoever connects, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def talk() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(65536)
                for words in said:
                    peer.sendall(words)

        thread = threading.Thread(target=talk)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    "said",
    [
        (HEAD, b'4\r\n"a"\n\r\n'),
        (HEAD, b'4\r\n"a"\n\r\n', b'8\r\n"b"\n'),
        (HEAD, b'4\r\n"a"\n\r\n', b'2\r\n"b\r\n'),
    ],
    ids=["between", "within", "in a line"],
)
def test_a_list_that_is_cut_short_is_never_taken_for_a_whole_one(said: tuple[bytes, ...]) -> None:
    with talker(*said) as url, AdminClient(url) as admin:
        names = admin.topics.stream("t/n", domain="persistent")
        assert next(names) == "a"
        with pytest.raises(AdminUnreachable):
            list(names)

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from magnetar import __version__
from magnetar.cli.main import main
from tests.unit.client.admin.web import Answer, scripted_web


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name in ("standalone", "admin", "produce", "consume", "doctor", "completion", "version"):
        assert f"\n  {name}" in shown


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out.startswith(f"magnetar {__version__} ")
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"magnetar {__version__}\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["prodce"], "no command is called 'prodce'. Did you mean produce?"),
        (["admin", "topic5"], "no group is called 'topic5'. Did you mean topics?"),
        (
            ["admin", "--admin-ulr", "x"],
            "no option is called '--admin-ulr'. Did you mean",
        ),
        (["admin", "topics", "lst"], "no verb is called 'lst'. Did you mean list?"),
        (["admin", "topics", "get-retenton"], "Did you mean get-retention?"),
        (["admin", "topics", "list"], "the following arguments are required: NAMESPACE"),
        (["admin", "topics", "list", "a/b", "--nope"], "unrecognized arguments: --nope"),
        (["admin", "topics", "skip", "t", "-s", "s", "-n", "x"], "invalid int value: 'x'"),
        (
            ["admin", "namespaces", "set-retention", "a/b", "-t", "soon", "-s", "1"],
            "'soon' is not a duration",
        ),
        (["admin", "namespaces", "set-deduplication", "a/b"], "--enable and --disable"),
        (["admin", "topics", "reset-cursor", "t", "-s", "s"], "--messageId and --time"),
        (["consume", "t"], "give one of --subscription and --reader"),
        (["consume", "t", "-s", "s", "--format", "{valu}"], "--format knows {value}"),
        (["produce", "t", "-n", "2"], "standard input is sent once"),
        (["completion", "bsh"], "Did you mean bash?"),
    ],
)
def test_a_usage_error_is_one_sentence_with_the_way_out(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    shown = capsys.readouterr()
    assert sentence in shown.err
    assert not shown.out


@pytest.mark.parametrize(
    "words", [["admin"], ["admin", "topics"], ["admin", "--help"], ["admin", "topics", "--help"]]
)
def test_groups_and_verbs_are_listed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(words)
    assert code == (0 if words[-1] == "--help" else 2)
    assert "usage: magnetar admin" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["--admin-url", "URL", "-o", "json", "topics", "stats", "x"],
        ["topics", "--admin-url=URL", "stats", "-o", "json", "x"],
        ["topics", "stats", "x", "-o", "json", "--admin-url", "URL"],
    ],
)
def test_common_options_may_stand_anywhere(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with scripted_web() as web:
        web.answers = [Answer(200, '{"msgRateIn": 1.5}')]
        assert main(["admin", *(word.replace("URL", web.url) for word in words)]) == 0
    assert json.loads(capsys.readouterr().out) == {"msgRateIn": 1.5}


def test_a_refused_call_is_one_sentence_and_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    with scripted_web() as web:
        web.answers = [Answer(404, '{"reason": "Topic x not found"}')]
        assert main(["admin", "--admin-url", web.url, "topics", "stats", "x"]) == 1
    shown = capsys.readouterr()
    assert shown.err == "magnetar: Topic x not found\n"
    assert not shown.out


@pytest.mark.parametrize(
    ("words", "url"),
    [
        (["admin", "tenants", "list", "--admin-url", "http://127.0.0.1:1"], "http://127.0.0.1:1"),
        (["produce", "t", "-m", "a", "--url", "pulsar://127.0.0.1:1"], "pulsar://127.0.0.1:1"),
        (["consume", "t", "--reader", "--url", "pulsar://127.0.0.1:1"], "pulsar://127.0.0.1:1"),
    ],
)
def test_nobody_listening_is_one_sentence_that_names_the_url(
    words: list[str], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 1
    shown = capsys.readouterr()
    assert url in shown.err and "connection refused" in shown.err
    assert len(shown.err.splitlines()) == 1


def test_a_name_that_cannot_be_is_refused_without_a_call(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["admin", "topics", "stats", "a/b"]) == 1
    assert "a/b" in capsys.readouterr().err


def test_a_reader_that_left_ends_the_command_silently() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "magnetar", "version"],
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    "words",
    [
        ["admin", "topics", "list", "public/default", "--admin-url", "http://127.0.0.1:1"],
        ["admin", "namespaces", "--help"],
    ],
)
def test_an_admin_verb_loads_nothing_heavy(words: list[str]) -> None:
    heavy = ("asyncio", "google.protobuf", "uvicorn", "msgspec", "magnetar.wire", "magnetar.broker")
    script = (
        "import sys\n"
        "from magnetar.cli.main import main\n"
        f"main({words!r})\n"
        f"print([name for name in {heavy!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_what_the_broker_notes_goes_to_the_error_stream(
    capsys: pytest.CaptureFixture[str],
) -> None:
    note = (("X-Magnetar-Note", "Send SIGTERM."),)
    with scripted_web() as web:
        web.answers = [Answer(200, "", note), Answer(501, '{"reason":"not supported"}', note)]
        words = ["admin", "--admin-url", web.url, "brokers"]
        assert main([*words, "update-dynamic-config", "-c", "k", "-v", "v"]) == 0
        assert capsys.readouterr() == ("", "magnetar: Send SIGTERM.\n")
        assert main([*words, "shutdown"]) == 1
        assert capsys.readouterr() == ("", "magnetar: not supported\nSend SIGTERM.\n")

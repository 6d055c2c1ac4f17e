"""Source, sink and jobs at a broker that speaks TLS and asks who is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from magnetar.cli.command import build_parser
from magnetar.cli.spark import JOBS, SHARED
from magnetar.client.error import AdminUnauthorized
from magnetar.spark.access import Access, access_of, open_admin
from magnetar.spark.hold import release_hold
from magnetar.spark.job.order_audit_command import load_generations
from magnetar.spark.job.table_command import load_record
from magnetar.spark.option import InvalidOption, Selection, parse_source
from magnetar.spark.sink_option import parse_sink
from magnetar.spark.sink_task import name_task, write_task
from magnetar.spark.survey import Survey
from tests.interop.security.place import Place, make_place, token_of
from tests.spark.engine import Engine, read_batch
from tests.spark.feed import fresh, numbers


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = make_place(tmp_path_factory.mktemp("authority"))
    with made.broker:
        yield made


@pytest.fixture
def token(tmp_path: Path) -> str:
    file = tmp_path / "root.token"
    file.write_text(token_of("root") + "\n")
    return f"file:{file}"


def trusting(place: Place, **more: str) -> dict[str, str]:
    urls = {"serviceUrl": place.url_tls, "adminUrl": place.admin_url_tls}
    return urls | {"tlsTrust": str(place.authority.certificate)} | more


def test_rows_are_written_and_read_over_tls_by_whoever_has_a_token(
    place: Place, token: str
) -> None:
    topic, options = fresh(), trusting(place, token=token)
    rows = pa.RecordBatch.from_pydict({"value": [str(number) for number in range(20)]})
    sink = parse_sink(options | {"topic": f"topic://{topic}"}, is_stream=False)
    assert write_task(sink, None, iter([rows]), name_task("tls", 0, 0)).written == 20
    assert numbers(read_batch(options, topic=topic)) == list(range(20))
    engine = Engine(options, topic=topic, startingOffsets="earliest", holdName="held")
    assert numbers(engine.run()) == list(range(20))
    access = Access(token=token, tls_trust=str(place.authority.certificate))
    release_hold(place.url_tls, place.admin_url_tls, [topic], "held", access=access)
    with open_admin(place.admin_url_tls, access) as admin:
        assert "held" not in str(admin.scalable_topics.stats(topic))


def test_a_client_certificate_is_shown_and_a_stranger_is_not_let_in(place: Place) -> None:
    certificate, key = place.authority.issue("root", file="me")
    own = trusting(place, tlsCert=str(certificate), tlsKey=str(key))
    topic = fresh()
    rows = pa.RecordBatch.from_pydict({"value": ["1"]})
    sink = parse_sink(own | {"topic": f"topic://{topic}"}, is_stream=False)
    write_task(sink, None, iter([rows]), name_task("cert", 0, 0))
    assert numbers(read_batch(own, topic=topic)) == [1]
    with pytest.raises(AdminUnauthorized):
        read_batch(trusting(place), topic=topic)


def test_a_query_with_rights_on_its_own_namespace_alone_is_planned_by_the_broker(
    tmp_path: Path, token: str
) -> None:
    """Whether a broker plans reads at all is asked without the name of a topic."""
    place = make_place(tmp_path, authorizationEnabled=True, superUserRoles="root")
    topic = "public/mine/t"
    access = Access(token=token, tls_trust=str(place.authority.certificate))
    with place.broker, open_admin(place.admin_url_tls, access) as admin:
        admin.namespaces.create("public/mine")
        admin.namespaces.grant("public/mine", "reader", ["consume"])
        admin.scalable_topics.create(topic)
        with Survey(
            parse_source(
                trusting(place, token=token_of("reader"), topic=topic), is_stream=True
            ).broker
        ) as survey:
            assert survey.plan.is_offered
            assert survey.look(Selection((topic,))).views.keys() == {topic}


def test_jobs_take_the_flags_of_every_other_command(place: Place, token: str) -> None:
    topic = fresh()
    trust = str(place.authority.certificate)
    with open_admin(place.admin_url_tls, Access(token=token, tls_trust=trust)) as admin:
        admin.scalable_topics.create(topic)
    flags = ["--admin-url", place.admin_url_tls, "--token", token, "--tls-trust", trust]
    for name in ("table", "order-audit"):
        job = next(each for each in JOBS if each.name == name)
        parser = build_parser(name, job, SHARED)
        words = [f"topic://{topic}", "--output", "out", "--url", place.url_tls, *flags]
        options: dict[str, Any] = vars(parser.parse_args(words))
        assert access_of(options).options == {"token": token, "tlsTrust": trust}
        assert load_record(options)["segments"] and load_generations(options) == {0: 0}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"token": "a", "basic": "b:c"}, "one of token and basic"),
        ({"tlsCert": "a"}, "tlsCert and tlsKey belong together"),
    ],
)
def test_credentials_that_contradict_each_other_are_named(given: dict[str, str], told: str) -> None:
    urls = {"serviceUrl": "pulsar://a", "adminUrl": "http://a", "topic": "t"}
    with pytest.raises(InvalidOption, match=told):
        parse_source(urls | given, is_stream=False)

"""The topics of a namespace: once, or watched."""

from __future__ import annotations

from collections.abc import Awaitable

from magnetar.broker.connection import Connection
from magnetar.broker.handler.permission import authorize
from magnetar.broker.topiclist import TopicListWatcher, TopicPattern
from magnetar.errors import BrokerError, NotAllowed, TooManyRequests
from magnetar.model.limit import check_size
from magnetar.model.name import NamespaceName, TopicDomain, parse_namespace, parse_stored_topic
from magnetar.model.scalable import namespace_path
from magnetar.rules.system import is_system_topic
from magnetar.wire.command import (
    BaseCommand,
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandWatchTopicList,
    CommandWatchTopicListSuccess,
    make_command,
    success,
)
from magnetar.wire.topiclist import hash_topics

_DOMAINS = {
    CommandGetTopicsOfNamespace.PERSISTENT: (TopicDomain.PERSISTENT,),
    CommandGetTopicsOfNamespace.NON_PERSISTENT: (TopicDomain.NON_PERSISTENT,),
    CommandGetTopicsOfNamespace.ALL: (TopicDomain.PERSISTENT, TopicDomain.NON_PERSISTENT),
}


async def _list(
    connection: Connection, namespace: NamespaceName, domains: tuple[TopicDomain, ...]
) -> list[str]:
    """What has become scalable is not listed: who asks cannot use it."""
    service, names = connection.service, list[str]()
    for domain in domains:
        names += await service.catalog.list_topics(namespace, domain)
    scalable = frozenset(await service.store.children(namespace_path(namespace)))
    if scalable:
        names = [
            name for name in names if parse_stored_topic(name).base.encoded_local not in scalable
        ]
    return [name for name in names if not is_system_topic(parse_stored_topic(name))]


def on_get_topics(connection: Connection, command: BaseCommand) -> Awaitable[None]:
    return _get_topics(connection, command.getTopicsOfNamespace)


async def _get_topics(connection: Connection, request: CommandGetTopicsOfNamespace) -> None:
    namespace = parse_namespace(request.namespace)
    await authorize(connection, BaseCommand.GET_TOPICS_OF_NAMESPACE, namespace=namespace)
    async with connection.answering():
        names = await _list(connection, namespace, _DOMAINS[request.mode])
        connection.send_command(make_command(_answer(connection, request, names)))


def _answer(
    connection: Connection, request: CommandGetTopicsOfNamespace, names: list[str]
) -> CommandGetTopicsOfNamespaceResponse:
    config = connection.service.config
    response = CommandGetTopicsOfNamespaceResponse(request_id=request.request_id)
    length_max = config.subscriptionPatternMaxLength
    if (
        request.HasField("topics_pattern")
        and config.enableBrokerSideSubscriptionPatternEvaluation
        and len(request.topics_pattern) <= length_max
    ):
        names, response.filtered = _filter(request.topics_pattern, names, length_max)
    response.topics_hash = hash_topics(names)
    response.changed = request.topics_hash != response.topics_hash
    if response.changed:
        response.topics.extend(names)
    return response


def _filter(text: str, names: list[str], length_max: int) -> tuple[list[str], bool]:
    """The client filters itself what the broker will not: all names are told then."""
    try:
        return TopicPattern(text, length_max=length_max).filter(names), True
    except NotAllowed:
        return names, False


def on_watch(connection: Connection, command: BaseCommand) -> Awaitable[None]:
    return _watch(connection, command.watchTopicList)


async def _watch(connection: Connection, request: CommandWatchTopicList) -> None:
    service = connection.service
    if not service.config.enableBrokerSideSubscriptionPatternEvaluation:
        raise NotAllowed("Unable to create topic list watcher: the feature is disabled")
    namespace = parse_namespace(request.namespace)
    await authorize(connection, BaseCommand.WATCH_TOPIC_LIST, namespace=namespace)
    watched = service.topic_lists.open(
        namespace,
        request.topics_pattern,
        length_max=service.config.subscriptionPatternMaxLength,
    )
    watcher = TopicListWatcher(connection, request.watcher_id, watched, service.topic_lists.close)
    previous = connection.watchers.pop(request.watcher_id, None)
    if previous is not None:
        previous.close()
    try:
        check_size(service.limits, "topic_list_watchers", len(connection.watchers) + 1)
    except TooManyRequests:
        watcher.close()
        raise
    connection.watchers[request.watcher_id] = watcher
    async with connection.answering():
        try:
            await watched.load(_list(connection, namespace, (TopicDomain.PERSISTENT,)))
        except BrokerError:
            if connection.watchers.get(request.watcher_id) is watcher:
                del connection.watchers[request.watcher_id]
            watcher.close()
            raise
        if connection.closed or connection.watchers.get(request.watcher_id) is not watcher:
            return
        topics = watcher.start()
        response = CommandWatchTopicListSuccess(
            request_id=request.request_id, watcher_id=request.watcher_id, topics_hash=topics.hash
        )
        if request.topics_hash != topics.hash:
            response.topic.extend(topics.names)
        connection.send_command(make_command(response))


def on_watch_close(connection: Connection, command: BaseCommand) -> None:
    request = command.watchTopicListClose
    watcher = connection.watchers.pop(request.watcher_id, None)
    if watcher is not None:
        watcher.close()
    connection.send_command(success(request.request_id))

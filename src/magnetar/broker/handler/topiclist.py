"""The topics of a namespace: once, or watched."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass

from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.connection import Connection
from magnetar.broker.handler.permission import CommandPermissions
from magnetar.broker.topiclist import TopicLists, TopicListWatcher, TopicListWatchers, TopicPattern
from magnetar.errors import BrokerError, NotAllowed
from magnetar.metadata.store import MetadataStore
from magnetar.model.name import NamespaceName, TopicDomain, parse_namespace, parse_stored_topic
from magnetar.model.scalable import namespace_path
from magnetar.rules.system import is_system_topic
from magnetar.runtime.configuration import Configuration
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


@dataclass(frozen=True)
class TopicListCommands:
    permissions: CommandPermissions
    catalog: TopicCatalog
    lists: TopicLists
    store: MetadataStore
    config: Configuration

    async def _list(self, namespace: NamespaceName, domains: tuple[TopicDomain, ...]) -> list[str]:
        """What has become scalable is not listed: who asks cannot use it."""
        names = list[str]()
        for domain in domains:
            names += await self.catalog.list_topics(namespace, domain)
        scalable = frozenset(await self.store.children(namespace_path(namespace)))
        if scalable:
            names = [
                name
                for name in names
                if parse_stored_topic(name).base.encoded_local not in scalable
            ]
        return [name for name in names if not is_system_topic(parse_stored_topic(name))]

    def on_get_topics(self, connection: Connection, command: BaseCommand) -> Awaitable[None]:
        return self._get_topics(connection, command.getTopicsOfNamespace)

    async def _get_topics(
        self, connection: Connection, request: CommandGetTopicsOfNamespace
    ) -> None:
        namespace = parse_namespace(request.namespace)
        await self.permissions.check(
            connection, BaseCommand.GET_TOPICS_OF_NAMESPACE, namespace=namespace
        )
        async with connection.answering():
            names = await self._list(namespace, _DOMAINS[request.mode])
            connection.send_command(make_command(self._answer(request, names)))

    def _answer(
        self, request: CommandGetTopicsOfNamespace, names: list[str]
    ) -> CommandGetTopicsOfNamespaceResponse:
        config = self.config
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

    def on_watch(self, connection: Connection, command: BaseCommand) -> Awaitable[None]:
        return self._watch(connection, command.watchTopicList)

    async def _watch(self, connection: Connection, request: CommandWatchTopicList) -> None:
        if not self.config.enableBrokerSideSubscriptionPatternEvaluation:
            raise NotAllowed("Unable to create topic list watcher: the feature is disabled")
        namespace = parse_namespace(request.namespace)
        await self.permissions.check(connection, BaseCommand.WATCH_TOPIC_LIST, namespace=namespace)
        if connection.closed:
            return
        watched = self.lists.open(
            namespace,
            request.topics_pattern,
            length_max=self.config.subscriptionPatternMaxLength,
        )
        watcher = TopicListWatcher(connection, request.watcher_id, watched, self.lists.close)
        watchers = connection.attached(TopicListWatchers)
        watchers.add(watcher)
        async with connection.answering():
            try:
                await watched.load(self._list(namespace, (TopicDomain.PERSISTENT,)))
            except BrokerError:
                if watcher in watchers:
                    watchers.remove(watcher.id)
                raise
            if connection.closed or watcher not in watchers:
                return
            topics = watcher.start()
            response = CommandWatchTopicListSuccess(
                request_id=request.request_id,
                watcher_id=request.watcher_id,
                topics_hash=topics.hash,
            )
            if request.topics_hash != topics.hash:
                response.topic.extend(topics.names)
            connection.send_command(make_command(response))


def _filter(text: str, names: list[str], length_max: int) -> tuple[list[str], bool]:
    """A pattern that the broker refuses is left to the client: it is sent all names."""
    try:
        return TopicPattern(text, length_max=length_max).filter(names), True
    except NotAllowed:
        return names, False


def on_watch_close(connection: Connection, command: BaseCommand) -> None:
    request = command.watchTopicListClose
    connection.attached(TopicListWatchers).remove(request.watcher_id)
    connection.send_command(success(request.request_id))

"""The policies in `magnetar admin topicPolicies` and `magnetar admin topics`."""

from __future__ import annotations

from typing import Final

from magnetar.cli.command import NAMESPACE, TOPIC, Verb
from magnetar.cli.policy_verb import topic_verbs

TOPIC_VERBS: Final = topic_verbs()
VERBS: Final = (
    Verb(
        "delete",
        "remove every policy of a topic",
        (TOPIC,),
        lambda a, o: a.topic_policies.delete(o.topic),
        shows=False,
    ),
    Verb(
        "backend",
        "what keeps the policies of a namespace's topics, and why",
        (NAMESPACE,),
        lambda a, o: a.topic_policies.backend(o.namespace),
    ),
    *TOPIC_VERBS,
)

"""The policies in `magnetar admin namespaces`."""

from __future__ import annotations

from typing import Final

from magnetar.cli.policy_verb import namespace_verbs

VERBS: Final = namespace_verbs()

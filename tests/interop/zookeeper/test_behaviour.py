"""What holds over metadata in a file holds over metadata on ZooKeeper: the same tests again."""

from __future__ import annotations

from tests.interop.test_admin_rest_topic import *  # noqa: F403
from tests.interop.test_official_client import *  # noqa: F403
from tests.interop.test_restart import *  # noqa: F403

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.security.place import Place, make_place


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = make_place(tmp_path_factory.mktemp("authority"))
    with made.broker:
        yield made

from __future__ import annotations

import json
from typing import Any

from tests.unit.admin.assembly import V2, Admin, run

BASE = f"{V2}/schemas/public/default/a"


def record(kind: str) -> dict[str, Any]:
    definition = {"type": "record", "name": "A", "fields": [{"name": "a", "type": kind}]}
    return {"type": "AVRO", "schema": json.dumps(definition), "properties": {"x": "y"}}


def test_a_schema_is_added_read_and_deleted() -> None:
    async def body(admin: Admin) -> None:
        missing = await admin.get(f"{BASE}/schema")
        assert (missing.status, missing.reason) == (404, "Schema not found")
        payload = record("int")
        assert (await admin.post(f"{BASE}/schema", payload)).json == {"version": {"version": 0}}
        assert (await admin.post(f"{BASE}/schema", payload)).json == {"version": {"version": 0}}
        found = (await admin.get(f"{BASE}/schema")).json
        assert found["version"] == 0 and found["type"] == "AVRO" and found["timestamp"] > 0
        assert found["data"] == payload["schema"] and found["properties"] == {"x": "y"}
        assert (await admin.get(f"{BASE}/schema/0")).json == found
        assert (await admin.get(f"{BASE}/schema/7")).status == 404
        assert (await admin.get(f"{BASE}/schema/x")).status == 400
        assert (await admin.get(f"{BASE}/schemas")).json == {"getSchemaResponses": [found]}
        assert (await admin.get(f"{V2}/schemas/public/default/a-partition-3/schema")).json == found
        assert (await admin.get(f"{BASE}/metadata")).json["info"]["version"] == 0
        assert (await admin.delete(f"{BASE}/schema")).json == {"version": 1}
        assert (await admin.get(f"{BASE}/schema")).status == 404
        assert (await admin.get(f"{BASE}/schemas")).json == {"getSchemaResponses": []}
        assert (await admin.delete(f"{BASE}/schema?force=true")).status == 200

    run(body)


def test_a_schema_that_does_not_fit_is_refused() -> None:
    async def body(admin: Admin) -> None:
        await admin.post(f"{BASE}/schema", record("int"))
        assert (await admin.post(f"{BASE}/schema", record("string"))).status == 409
        assert (await admin.post(f"{BASE}/schema", {"type": "AVRO", "schema": "bad"})).status == 422
        assert (await admin.post(f"{BASE}/schema", {"type": "BOGUS", "schema": ""})).status == 422
        assert (await admin.post(f"{BASE}/schema", {"schema": ""})).status == 400
        assert (await admin.post(f"{BASE}/schema")).status == 400

    run(body)


def test_compatibility_and_version_are_told_without_adding() -> None:
    async def body(admin: Admin) -> None:
        await admin.post(f"{BASE}/schema", record("int"))
        told = await admin.post(f"{BASE}/compatibility", record("int"))
        assert told.json == {"compatibility": True, "schemaCompatibilityStrategy": "FULL"}
        assert (await admin.post(f"{BASE}/compatibility", record("string"))).json == {
            "compatibility": False,
            "schemaCompatibilityStrategy": "FULL",
        }
        assert (await admin.post(f"{BASE}/version", record("int"))).json == {"version": 0}
        assert (await admin.post(f"{BASE}/version", record("string"))).json == {"version": -1}
        assert (await admin.post(f"{BASE}/compatibility", {"type": "X"})).status == 422

    run(body)


def test_a_pair_of_schemas_is_told_as_json() -> None:
    async def body(admin: Admin) -> None:
        part = json.loads(record("int")["schema"])
        payload = {
            "type": "KEY_VALUE",
            "schema": json.dumps({"key": "", "value": part}),
            "properties": {
                "key.schema.type": "STRING",
                "value.schema.type": "AVRO",
                "kv.encoding.type": "INLINE",
            },
        }
        assert (await admin.post(f"{BASE}/schema", payload)).status == 200
        found = (await admin.get(f"{BASE}/schema")).json
        assert json.loads(found["data"]) == {"key": "", "value": part}

    run(body)

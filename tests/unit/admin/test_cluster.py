from __future__ import annotations

from tests.unit.admin.assembly import V2, Admin, run

CLUSTERS = f"{V2}/clusters"


def test_a_cluster_is_made_read_changed_and_removed() -> None:
    async def body(admin: Admin) -> None:
        data = {"serviceUrl": "http://c:8080", "brokerServiceUrl": "pulsar://c:6650"}
        made = await admin.put(f"{CLUSTERS}/c2", data)
        assert (made.status, made.body) == (200, b"")
        assert (await admin.get(CLUSTERS)).json == ["c2", "standalone"]
        assert (await admin.post(f"{CLUSTERS}/c2", {"serviceUrl": "http://d:8080"})).status == 200
        found = (await admin.get(f"{CLUSTERS}/c2")).json
        assert found["serviceUrl"] == "http://d:8080" and "brokerServiceUrl" not in found
        assert (await admin.delete(f"{CLUSTERS}/c2")).status == 204
        missing = await admin.get(f"{CLUSTERS}/c2")
        assert (missing.status, missing.reason) == (404, "Cluster does not exist: c2")

    run(body)


def test_a_cluster_is_refused_with_its_reason() -> None:
    async def body(admin: Admin) -> None:
        for path, data, status, reason in (
            ("standalone", {}, 409, "Cluster already exists"),
            ("x", ..., 400, "cluster data is required"),
            ("a%40b", {}, 412, "Cluster name is not valid"),
        ):
            reply = await admin.put(f"{CLUSTERS}/{path}", data)
            assert (reply.status, reply.reason) == (status, reason)
        wrong = await admin.put(f"{CLUSTERS}/x", {"serviceUrl": "c:8080"})
        assert wrong.status == 400 and wrong.reason.startswith("Illegal service url")
        assert (await admin.post(f"{CLUSTERS}/x", {})).status == 404
        used = await admin.delete(f"{CLUSTERS}/standalone")
        assert (used.status, used.reason) == (412, "Cluster not empty")

    run(body)


def test_peers_of_a_cluster_are_other_known_clusters() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{CLUSTERS}/c2", {})
        assert (await admin.get(f"{CLUSTERS}/c2/peers")).status == 204
        assert (await admin.post(f"{CLUSTERS}/c2/peers", ["standalone"])).status == 204
        assert (await admin.get(f"{CLUSTERS}/c2/peers")).json == ["standalone"]
        assert (await admin.post(f"{CLUSTERS}/c2/peers", ["c2"])).status == 412
        assert (await admin.post(f"{CLUSTERS}/c2/peers", ["nobody"])).status == 412

    run(body)

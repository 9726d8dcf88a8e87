"""The tests' proxy before the API server: its faults do what they say."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from support.kubernetes.fault_proxy import FaultProxy
from support.kubernetes.kube_api import Api, ApiError
from support.kubernetes.kube_here import Cluster, namespaced
from support.waiting import until

READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}


@pytest.fixture
def api(proxy: FaultProxy, cluster: Cluster) -> Api:
    """The API server behind the proxy, with a certificate that may do everything."""
    return Api(proxy.server, cluster.place.pki, "admin")


class Watching:
    """A watch in a thread: what it has seen, and whether it has ended."""

    def __init__(self, api: Api, path: str) -> None:
        self.events: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self.thread = threading.Thread(target=self.follow, args=(api, path), daemon=True)
        self.thread.start()

    def follow(self, api: Api, path: str) -> None:
        with suppress(OSError), api.open("GET", f"{path}?watch=1&timeoutSeconds=300") as lines:
            for line in lines:
                self.events.put(json.loads(line))

    def next(self, seconds: float = 60) -> dict[str, Any]:
        return self.events.get(timeout=seconds)


def make(api: Api, namespace: str, name: str) -> str:
    """The path of the namespace's Secrets, one of which was made. A new namespace has none."""
    path = f"{namespaced(namespace)}/secrets"
    api.create(path, {"metadata": {"name": name}})
    return path


def test_what_is_asked_through_the_proxy_is_answered_by_the_server(
    proxy: FaultProxy, api: Api, namespace: str
) -> None:
    path = make(api, namespace, "one")
    assert api.get(f"{path}/one")["metadata"]["namespace"] == namespace
    assert proxy.requests == [f"POST {path}", f"GET {path}/one"]
    with pytest.raises(ApiError, match="404"):
        api.get(f"{path}/two")


def test_a_token_has_its_own_rights_through_the_proxy(
    proxy: FaultProxy, cluster: Cluster, namespace: str
) -> None:
    token = cluster.make_user(namespace, "reader", [READ_PODS])
    reader = Api(proxy.server, cluster.place.pki, token=token)
    assert reader.get(f"{namespaced(namespace)}/pods")["items"] == []
    with pytest.raises(ApiError, match="403"):
        reader.get(f"{namespaced(namespace)}/secrets")
    with pytest.raises(ApiError, match="403"):
        reader.get("/api/v1/pods")


def test_kubectl_works_through_the_proxy(
    proxy: FaultProxy, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    kubeconfig = proxy.write_kubeconfig(tmp_path / "kubeconfig", namespace=namespace)
    assert "root-ca" in cluster.kubectl("get", "configmaps", kubeconfig=kubeconfig)


def test_a_refusal_comes_as_often_as_asked(proxy: FaultProxy, api: Api) -> None:
    proxy.refuse(429, "GET /version", times=2, Retry_After="1")
    for _ in range(2):
        with pytest.raises(ApiError, match="429"):
            api.get("/version")
    assert api.get("/version")["major"] == "1"


def test_a_frozen_proxy_holds_requests_and_watches_until_it_thaws(
    proxy: FaultProxy, api: Api, cluster: Cluster, namespace: str
) -> None:
    path = make(cluster.api, namespace, "before")
    watching = Watching(api, path)
    assert watching.next()["object"]["metadata"]["name"] == "before"
    answered = threading.Event()
    asking = threading.Thread(target=lambda: (api.get("/version"), answered.set()))
    with proxy.frozen():
        asking.start()
        make(cluster.api, namespace, "meanwhile")
        with pytest.raises(Empty):
            watching.next(seconds=1)
        assert not answered.is_set()
    assert watching.next()["object"]["metadata"]["name"] == "meanwhile"
    asking.join()
    assert answered.is_set()


def test_a_dropped_watch_ends_in_the_client(
    proxy: FaultProxy, api: Api, cluster: Cluster, namespace: str
) -> None:
    watching = Watching(api, make(cluster.api, namespace, "one"))
    watching.next()
    assert proxy.drop_watches() == 1
    watching.thread.join(60)
    assert not watching.thread.is_alive()


def test_a_watch_that_is_swallowed_tells_nothing_while_all_else_is_answered(
    proxy: FaultProxy, api: Api, cluster: Cluster, namespace: str
) -> None:
    path = make(cluster.api, namespace, "one")
    watching = Watching(api, path)
    watching.next()
    with proxy.swallowing():
        make(cluster.api, namespace, "two")
        until(lambda: proxy.swallowed)
        assert api.get(f"{path}/two")
    watching.thread.join(60)
    assert watching.events.empty()


def test_an_expired_watch_is_told_410(proxy: FaultProxy, api: Api, namespace: str) -> None:
    proxy.expire_watches()
    path = make(api, namespace, "one")
    event = Watching(api, path).next()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert Watching(api, path).next()["type"] == "ADDED"


def test_a_hung_server_answers_when_it_goes_on(cluster: Cluster) -> None:
    answered = threading.Event()
    asking = threading.Thread(target=lambda: (cluster.api.get("/version"), answered.set()))
    with cluster.hung():
        asking.start()
        assert not answered.wait(1)
    asking.join()
    assert answered.is_set()

"""The API server as a client of nothing but HTTP sees it: requests, answers with their status, and waiting."""

import json
import ssl
import time
from collections.abc import Callable, Iterator
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

ANSWER_SECONDS_MAX = 30.0
POLL_SECONDS = 0.1

Tree = dict[str, Any]
T = TypeVar("T")

TRACES = {"events", "componentstatuses"}
"""Lists that say what happened or how things are, not what is there."""


class Answer(NamedTuple):
    status: int
    body: Tree

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


class Thing(NamedTuple):
    """An object of the cluster; one that is not in a namespace has an empty one."""

    resource: str
    namespace: str
    name: str


class Api:
    """Requests in the name of whoever has the token."""

    def __init__(self, port: int, authority: Path, token: str) -> None:
        self.port = port
        self.token = token
        self._trust = ssl.create_default_context(cafile=str(authority))

    def ask(self, method: str, path: str, body: Tree | None = None, kind: str = "application/json") -> Answer:
        """One request; the answer, whatever its status."""
        line = HTTPSConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS_MAX, context=self._trust)
        try:
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind, "Accept": "application/json"}
            line.request(method, path, json.dumps(body) if body is not None else None, headers)
            response = line.getresponse()
            text = response.read().decode()
        finally:
            line.close()
        return Answer(response.status, json.loads(text) if text.startswith("{") else {"message": text})

    def get(self, path: str, **query: str) -> Tree:
        """What is there. Requires that it is."""
        return _granted(self.ask("GET", f"{path}?{urlencode(query)}" if query else path))

    def items(self, path: str, **query: str) -> list[Tree]:
        return list(self.get(path, **query)["items"])

    def create(self, path: str, body: Tree) -> Tree:
        return _granted(self.ask("POST", path, body))

    def patch(self, path: str, body: Tree, kind: str = "application/merge-patch+json") -> Tree:
        return _granted(self.ask("PATCH", path, body, kind))

    def delete(self, path: str, grace_s: int | None = None) -> Answer:
        options: Tree = {"apiVersion": "v1", "kind": "DeleteOptions"}
        return self.ask("DELETE", path, options | ({} if grace_s is None else {"gracePeriodSeconds": grace_s}))

    def inventory(self, namespace: str | None = None) -> set[Thing]:
        """All objects of all kinds that the server knows: those of a namespace, or those of the whole cluster."""
        found = set()
        for prefix, resource in self._kinds():
            if namespace is not None and not resource["namespaced"]:
                continue
            where = f"{prefix}/namespaces/{namespace}/" if namespace is not None else f"{prefix}/"
            for item in self.items(where + resource["name"]):
                meta = item["metadata"]
                found.add(Thing(resource["name"], meta.get("namespace", ""), meta["name"]))
        return found

    def _kinds(self) -> Iterator[tuple[str, Tree]]:
        groups = ["/api/v1"]
        groups += [f"/apis/{group['preferredVersion']['groupVersion']}" for group in self.get("/apis")["groups"]]
        for prefix in groups:
            for resource in self.get(prefix)["resources"]:
                if "list" in resource["verbs"] and resource["name"] not in TRACES:
                    yield prefix, resource


def _granted(answer: Answer) -> Tree:
    assert 200 <= answer.status < 300, f"{answer.status}: {answer.message}"
    return answer.body


def wait_until(what: Callable[[], T], seconds: float, story: Callable[[], object] = lambda: "") -> T:
    """Ask again and again until there is an answer that counts as true; the `story` is told if there never is."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain; {story()}"
        time.sleep(POLL_SECONDS)
    return found

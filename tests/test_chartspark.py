"""Spark's Kubernetes scheduler with the chart's settings: what it asks the API server for, and which pods it makes.

The API server here only answers as one would and writes down what it was asked; a real one is in tests/k8s.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate
import pytest

from tests.chartlab import Manifest, named, of_kind, rendered, unrestricted

pytestmark = [pytest.mark.spark, pytest.mark.programs]

DRIVER = "driver-0"
EXECUTORS = 4
DEADLINE_S = 120
WATCH_S = 1.0
"""A watch ends after some minutes in a real server, and the client asks anew."""
SCRIPT = """
import json, sys
from streaming.session import start_session
session = start_session(sys.argv[1], 8, json.loads(sys.argv[2]))
sys.stdin.read()
session.stop()
"""


class Api:
    """An API server that knows the pod of the driver, and keeps the pods that it is asked to make."""

    def __init__(self) -> None:
        self.asked: set[tuple[str, str]] = set()
        self.made: list[Manifest] = []
        self.enough = threading.Event()
        self.closed = threading.Event()

    def answer(self, method: str, path: str, body: bytes) -> Manifest | None:
        """What is answered; None to a watch, which has nothing to tell."""
        place = urlsplit(path)
        kind, _, name = place.path.partition("/namespaces/watch/")[2].partition("/")
        verb = verb_of(method, name, is_watch="watch" in parse_qs(place.query))
        self.asked.add((verb, kind))
        driver = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": DRIVER, "uid": "1", "resourceVersion": "1"}}
        if verb == "create":
            pod = json.loads(body)
            self.made.append(pod)
            if len(self.made) == EXECUTORS:
                self.enough.set()
            return {
                **pod,
                "metadata": {**pod["metadata"], "uid": str(len(self.made) + 1)},
                "status": {"phase": "Pending"},
            }
        if verb == "list":
            return {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}
        return {"get": driver, "watch": None}.get(verb, {"kind": "Status", "apiVersion": "v1", "status": "Success"})


def verb_of(method: str, name: str, *, is_watch: bool) -> str:
    """The verb that a role has to allow."""
    if method == "GET":
        return "watch" if is_watch else "get" if name else "list"
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete" if name else "deletecollection"}
    return verbs[method]


@contextmanager
def serving(api: Api) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = api.answer(self.command, self.path, body)
            self.send_response(201 if self.command == "POST" else 200)
            self.send_header("Content-Type", "application/json")
            if answer is None:
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                api.closed.wait(WATCH_S)
                self.wfile.write(b"0\r\n\r\n")
                return
            text = json.dumps(answer).encode()
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815  the library's names

        def log_message(self, *_: Any) -> None:
            """Nothing: what was asked is kept."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        api.closed.set()
        server.shutdown()
        server.server_close()


def settings(found: list[Manifest], folder: Path) -> dict[str, str]:
    """The driver's settings of Spark, with this machine's files and addresses."""
    driver = named(found, "Deployment", "live-quorumscope-driver")["spec"]["template"]["spec"]["containers"][0]
    arguments = driver["args"]
    conf = dict(value.split("=", 1) for option, value in pairwise(arguments) if option == "--conf")
    pod, secret = folder / "pod.yaml", folder / "secret"
    pod.write_text(named(found, "ConfigMap", "live-quorumscope-executor-pod")["data"]["pod.yaml"], encoding="utf-8")
    secret.write_text("x" * 48, encoding="utf-8")
    here = {
        "spark.kubernetes.driver.pod.name": DRIVER,
        "spark.kubernetes.executor.podTemplateFile": str(pod),
        "spark.authenticate.secret.driver.file": str(secret),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.port": "0",
        "spark.driver.blockManager.port": "0",
    }
    assert here.keys() <= conf.keys()
    return conf | here


def test_spark_asks_for_what_the_role_allows_and_makes_pods_that_are_restricted(tmp_path: Path) -> None:
    found = rendered("kubernetes-uri")
    api = Api()
    with serving(api) as url:
        command = [sys.executable, "-c", SCRIPT, f"k8s://{url}", json.dumps(settings(found, tmp_path))]
        started = time.monotonic()
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as driver:
            assert api.enough.wait(DEADLINE_S), f"{len(api.made)} pods after {time.monotonic() - started:.0f} s"
            driver.communicate(timeout=DEADLINE_S)
        assert driver.returncode == 0
    ((rule,),) = [one["rules"] for one in of_kind(found, "Role")]
    # `delete` is for an executor that has failed, which none has here.
    assert api.asked == {(verb, "pods") for verb in rule["verbs"] if verb != "delete"}
    for pod in api.made:
        check_executor(pod)
    assert len({pod["metadata"]["name"] for pod in api.made}) == EXECUTORS


def check_executor(pod: Manifest) -> None:
    kubernetes_validate.validate(pod, kubernetes_validate.latest_version(), strict=True)
    assert list(unrestricted(pod["spec"])) == []
    assert pod["metadata"]["ownerReferences"][0]["name"] == DRIVER
    assert pod["metadata"]["labels"]["app.kubernetes.io/component"] == "executor"
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["serviceAccountName"] == "live-quorumscope-executor"
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["/usr/bin/tini", "--", "/opt/quorumscope/executor"]
    assert container["args"] == ["executor"]
    assert container["resources"] == {
        "requests": {"cpu": "1500m", "memory": "8192Mi"},
        "limits": {"memory": "8192Mi"},
    }
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["SPARK_LOCAL_DIRS"] == "/scratch"
    assert "-Dspark.network.crypto.enabled=true" in environment.values()
    assert not any("x" * 48 in (value or "") for value in environment.values())
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["tmp", "spark-local-dir-1", "spark"]

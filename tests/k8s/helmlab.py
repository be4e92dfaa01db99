"""Helm as an operator runs it, against the cluster of the tests; and what a release has in the cluster."""

import os
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.k8s.api import Thing, Tree, wait_until
from tests.k8s.cluster import Cluster
from tests.k8s.programs import CHART, program

INSTALL_SECONDS_MAX = 120
GONE_SECONDS_MAX = 60.0


class Done(NamedTuple):
    """How a command of helm's ended."""

    code: int
    out: str
    err: str
    seconds: float


class Release:
    """A release of the chart, in a namespace."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path, name: str = "watch") -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.name = name
        self._folder = folder / namespace
        self._folder.mkdir(exist_ok=True)

    def helm(self, verb: str, *arguments: str, timeout_s: float = 2 * INSTALL_SECONDS_MAX + 60) -> Done:
        places = {f"HELM_{kind}_HOME": str(self._folder / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        environment = os.environ | places | {"KUBECONFIG": str(self.cluster.kubeconfig)}
        began = time.monotonic()
        command = [program("helm"), verb, *arguments, "--namespace", self.namespace]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=timeout_s, check=False)
        return Done(done.returncode, done.stdout, done.stderr, time.monotonic() - began)

    def put(self, verb: str, values: Tree, *more: str, chart: Path = CHART) -> Done:
        """Install or upgrade with these values, and wait until all is ready."""
        path = self._folder / "values.yaml"
        path.write_text(yaml.safe_dump(values))
        wait = ("--wait", "--wait-for-jobs", "--timeout", f"{INSTALL_SECONDS_MAX}s")
        return self.helm(verb, self.name, str(chart), "--values", str(path), *wait, *more)

    def install(self, values: Tree, *more: str, chart: Path = CHART) -> Done:
        """Requires that it succeeds."""
        done = self.put("install", values, *more, chart=chart)
        assert done.code == 0, f"{done.err}\n{self.story()}"
        return done

    def refused(self, values: Tree, *more: str) -> str:
        """Why the installation is refused; asserts that it left nothing."""
        before = self.cluster.api.inventory()
        done = self.put("install", values, *more)
        assert done.code != 0, done.out
        assert self.cluster.api.inventory() - before == set(), done.err
        return " ".join(done.err.split())

    def uninstall(self) -> Done:
        done = self.helm("uninstall", self.name, "--wait", "--timeout", f"{INSTALL_SECONDS_MAX}s")
        assert done.code == 0, done.err
        return done

    def hooks(self) -> list[Tree]:
        return _documents(self.helm("get", "hooks", self.name).out)

    def manifest(self) -> list[Tree]:
        return _documents(self.helm("get", "manifest", self.name).out)

    def pods(self, **labels: str) -> list[Tree]:
        query = ",".join(f"{name}={value}" for name, value in labels.items())
        return self.cluster.api.items(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=query)

    def get(self, resource: str, name: str, group: str = "api/v1") -> Tree:
        return self.cluster.api.get(f"/{group}/namespaces/{self.namespace}/{resource}/{name}")

    def story(self) -> str:
        """What Kubernetes says of why things are as they are."""
        events = self.cluster.api.items(f"/api/v1/namespaces/{self.namespace}/events")
        lines = [f"{one['involvedObject']['name']}: {one['reason']}: {one.get('message', '')}" for one in events]
        return "\n".join(lines[-30:])

    def left_of(self, before: set[Thing]) -> set[Thing]:
        """What the cluster has more than before, once what is still going has gone."""
        found: set[Thing] = set()

        def settled() -> bool:
            found.clear()
            found.update(self.cluster.api.inventory() - before)
            return not any(one.resource in {"pods", "replicasets"} for one in found)

        wait_until(settled, GONE_SECONDS_MAX, lambda: sorted(found))
        return found


def _documents(text: str) -> list[Tree]:
    found: list[Any] = list(yaml.safe_load_all(text))
    return [one for one in found if one]

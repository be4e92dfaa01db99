"""A pod whose one container runs as a process, and what a kubelet tells of it."""

import contextlib
import os
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path

from tests.k8s.api import Tree

PROBE_PAUSE_SECONDS = 0.5
LOG_LINES_SHOWN = 12


def told(address: str) -> str:
    """What Kubernetes is told of a pod's address: of loopback's it takes none for a service."""
    return "10" + address.removeprefix("127")


def used(address: str) -> str:
    """The address behind one that Kubernetes was told."""
    return "127" + address.removeprefix("10")


class PodProcess:
    """In a process group of its own, with a log."""

    def __init__(self, pod: Tree, command: Sequence[str], environment: Mapping[str, str], place: Path) -> None:
        self.pod = pod
        (self.container,) = pod["spec"]["containers"]
        self.since = _now()
        self.ready = False
        self.end_told = False
        self.log = place / "log"
        self._ending = False
        self._probed = 0.0
        with self.log.open("wb") as output:
            # It must not outlive this process, however that ends.
            bound = ["setpriv", "--pdeathsig", "KILL", "--", *command]
            self.process = subprocess.Popen(
                bound, env=environment, cwd=place, stdout=output, stderr=output, start_new_session=True
            )

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.pod["metadata"]["namespace"])

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.pod["metadata"].get("labels", {}))

    @property
    def address(self) -> str:
        return str(self.pod["status"]["podIP"])

    def log_end(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:])

    def signal(self, number: int) -> None:
        """To all its processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def end(self, grace_s: float) -> None:
        """Ask its first process to end, as a kubelet does; once it had its time, end them all."""
        if not self._ending:
            self._ending = True
            threading.Thread(target=self._end, args=(grace_s,), daemon=True).start()

    def is_ready(self) -> bool:
        """What its readiness probe says now; without one, it is ready."""
        probe = self.container.get("readinessProbe")
        if probe is None:
            return True
        if time.monotonic() - self._probed < PROBE_PAUSE_SECONDS:
            return False
        self._probed = time.monotonic()
        return self.probe(probe)

    def probe(self, probe: Tree) -> bool:
        """Ask over HTTP, which is all that the chart does."""
        asked = probe["httpGet"]
        ports = {port["name"]: port["containerPort"] for port in self.container.get("ports", [])}
        url = f"http://{self.address}:{ports.get(asked['port'], asked['port'])}{asked.get('path', '/')}"
        try:
            with urllib.request.urlopen(url, timeout=probe.get("timeoutSeconds", 1)) as answer:
                return bool(200 <= answer.status < 400)
        except (OSError, HTTPException):
            return False

    def end_status(self) -> Tree:
        """Requires that it has ended."""
        code = self.process.returncode
        ended = {"exitCode": code if code >= 0 else 128 - code, "finishedAt": _now()}
        ended["reason"] = "Error" if code else "Completed"
        status = _status(self.container, {"terminated": ended}, ready=False)
        return status | {"phase": "Failed" if code else "Succeeded"}

    def _end(self, grace_s: float) -> None:
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(grace_s)
        self.signal(signal.SIGKILL)


def ready_status(container: Tree, *, ready: bool) -> Tree:
    """Of a pod that runs."""
    return _status(container, {"running": {"startedAt": _now()}}, ready=ready) | {"phase": "Running"}


def _status(container: Tree, state: Tree, *, ready: bool) -> Tree:
    one = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
    one |= {"ready": ready, "started": "running" in state, "state": state}
    states = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
    conditions = [{"type": kind, "status": str(holds)} for kind, holds in states.items()]
    return {"conditions": conditions, "containerStatuses": [one]}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

"""Plays the kubelet of one node: it really starts what a pod says, as processes of this machine, without containers.

It does what a kubelet does with a pod's description: volumes are filled from ConfigMaps, Secrets, claims and tokens,
environment and arguments are resolved, the pod gets an address of its own (of loopback's, which has millions), its
readiness is asked for, and the API server is told how it is. Three things stand in for what only containers have:

- Paths. Where a container would see a mount, the process gets the folder that stands for it: each path in the pod's
  texts, and in the files that ConfigMaps give it, is rewritten. The same for paths of the image.
- Names. A service's name, and the API server's, is rewritten to an address.
- 0.0.0.0 is rewritten to the pod's own address: a pod listens in a network of its own, and we on loopback alone.

What has ended is not started again: its pod has failed, and whoever made it makes another one.
"""

import signal
import threading
import traceback
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.k8s.api import POLL_SECONDS, Tree
from tests.k8s.cluster import Cluster
from tests.k8s.image import Image
from tests.k8s.podprocess import PodProcess, ready_status, told
from tests.k8s.volumes import Rewriting, Volumes

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where a pod finds its account's token. Clients look there by themselves, so they must be told of another place."""


class Kubelet:
    """Runs the pods of a node while the context lasts."""

    def __init__(self, cluster: Cluster, folder: Path, node: str, image: Image, verbatim: Collection[str] = ()) -> None:
        """`verbatim` names files of ConfigMaps that are not for the process that reads them."""
        self.cluster = cluster
        self.folder = folder
        self.node = node
        self.image = image
        self.verbatim = verbatim
        self.pods: dict[str, PodProcess] = {}
        """All pods that were started, by their ids; also those that have ended."""
        self.troubles: list[str] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    @property
    def claims(self) -> Path:
        """The folder of folders that stand for claimed volumes."""
        return self.folder / "claims"

    def running(self, **labels: str) -> list[PodProcess]:
        """Pods with these labels whose process lives, the oldest first."""
        return [pod for pod in self.started(**labels) if pod.process.poll() is None]

    def started(self, **labels: str) -> list[PodProcess]:
        """The same, and those whose process has ended."""
        return [pod for pod in self.pods.values() if labels.items() <= pod.labels.items()]

    def story(self) -> str:
        """What the processes said at last, for a test that fails."""
        ends = [f"{pod.name} ({pod.process.poll()}):\n{pod.log_end()}" for pod in self.pods.values()]
        return "\n".join([*self.troubles[-3:], *ends])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join(60)
        for pod in self.pods.values():
            pod.signal(signal.SIGKILL)
            pod.process.wait()

    def _work(self) -> None:
        while not self._ending.wait(POLL_SECONDS):
            try:
                self._look()
            except Exception:  # noqa: BLE001  a test looks at them, and the next round must not wait
                self.troubles.append(traceback.format_exc())

    def _look(self) -> None:
        for pod in self.cluster.api.items("/api/v1/pods", fieldSelector=f"spec.nodeName={self.node}"):
            known = self.pods.get(pod["metadata"]["uid"])
            if "deletionTimestamp" in pod["metadata"]:
                self._stop(pod, known)
            elif known is None:
                self._start(pod)
            elif known.process.poll() is not None and not known.end_told:
                known.end_told = True
                self._tell(known, known.end_status())
            elif known.process.poll() is None and not known.ready and known.is_ready():
                known.ready = True
                self._tell(known, ready_status(known.container, ready=True))

    def _start(self, pod: Tree) -> None:
        (container,) = pod["spec"]["containers"]
        meta = pod["metadata"]
        number = len(self.pods) + 1
        pod["status"] |= {"podIP": f"127.8.{number // 250}.{number % 250 + 1}", "hostIP": "10.0.0.1"}
        place = self.folder / f"{meta['name']}-{meta['uid'][:8]}"
        rewriting = Rewriting(self.cluster, pod, container, self.image.folders, self.folder)
        volumes = Volumes(self.cluster, pod, place, self.claims, rewriting)
        volumes.fill()
        rewriting.folders |= volumes.mounts(container)
        volumes.rewrite(self.verbatim)
        environment = self._environment(rewriting)
        command = rewriting.command(environment, self.image.entrypoint)
        started = PodProcess(pod, command, environment, place)
        self.pods[meta["uid"]] = started
        address = {"podIP": told(started.address), "podIPs": [{"ip": told(started.address)}], "hostIP": "10.0.0.1"}
        self._tell(started, ready_status(container, ready=False) | address | {"startTime": started.since})

    def _environment(self, rewriting: Rewriting) -> dict[str, str]:
        found = dict(self.image.environment)
        found |= {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.cluster.api.port)}
        account = rewriting.folders.get(ACCOUNT)
        if account:
            found |= {"KUBERNETES_AUTH_SERVICEACCOUNT_TOKEN": f"{account}/token"}
            found |= {"KUBERNETES_CERTS_CA_FILE": f"{account}/ca.crt"}
        found["KUBERNETES_AUTH_TRYKUBECONFIG"] = "false"  # this machine's user may have one
        return found | rewriting.environment(found)

    def _stop(self, pod: Tree, known: PodProcess | None) -> None:
        """End the process, at first in order, and then let the pod go."""
        if known is not None and known.process.poll() is None:
            known.end(pod["metadata"].get("deletionGracePeriodSeconds", 30))
            return
        meta = pod["metadata"]
        self.cluster.api.delete(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", grace_s=0)

    def _tell(self, pod: PodProcess, status: Tree) -> None:
        """Tell the API server how a pod is. It may have gone meanwhile."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        self.cluster.api.ask("PATCH", path, {"status": status}, "application/merge-patch+json")

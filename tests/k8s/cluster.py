"""A Kubernetes without machines: etcd, the API server, its controllers and its scheduler, on loopback, each guarded.

Who may do what is decided as in a real cluster: by RBAC, by pod security and the other admission plug-ins. Two kinds of
nodes stand in for machines. Pods on those that kwok plays are only said to run. Those on the node `hands` are left
alone: a test runs them itself (see kubelet.py). A namespace chooses by an annotation that the scheduler honours.
"""

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import trustme
import yaml
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from streaming.guard import GuardedProcess
from streaming.services import free_port
from tests.k8s.api import Api, Tree, wait_until
from tests.k8s.objects import AUDIT, PLAYED, REAL, STORAGE_CLASS, namespace, node, volume
from tests.k8s.programs import program

READY_SECONDS_MAX = 120.0
"""The API server answers after four seconds, and after many more on a machine that has other things to do."""
PLAYED_NODES = 3
VOLUMES = 60
ADMIN_TOKEN = "the-admin-of-this-test"
LOG_LINES_SHOWN = 15


class Cluster:
    """What tests talk to."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.authority = folder / "authority.pem"
        self.kubeconfig = folder / "kubeconfig"
        self.audit = folder / "audit.log"
        self.api = Api(port, self.authority, ADMIN_TOKEN)
        self.ready_s: dict[str, float] = {}

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.api.port}"

    def as_account(self, namespace: str, name: str) -> Api:
        """The API as a service account sees it, with a token as its pods get one."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        return Api(self.api.port, self.authority, self.api.create(path, request)["status"]["token"])

    def kubectl(self, *arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [program("kubectl"), "--kubeconfig", str(self.kubeconfig), *arguments]
        return subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)

    def new_namespace(self, name: str, *, real: bool = False) -> str:
        """A namespace that admits restricted pods alone, for nodes that kwok plays or for the real one."""
        self.api.create("/api/v1/namespaces", namespace(name, REAL if real else PLAYED))
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        wait_until(lambda: self.api.ask("GET", account).status == 200, 30)
        trust = f"/api/v1/namespaces/{name}/configmaps/kube-root-ca.crt"
        wait_until(lambda: self.api.ask("GET", trust).status == 200, 30)
        return name

    def requests_of(self, namespace: str, account: str) -> list[Tree]:
        """What a service account has asked the API server for, by the server's own audit log."""
        user = f"system:serviceaccount:{namespace}:{account}"
        lines = (json.loads(line) for line in self.audit.read_text().splitlines() if line.endswith("}"))
        return [line for line in lines if line["user"]["username"] == user]


@contextlib.contextmanager
def started_cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster with its nodes and volumes ready. It ends with its owner, however that ends."""
    _write_keys(folder)
    cluster = Cluster(folder, free_port())
    _write_files(cluster)
    with contextlib.ExitStack() as parts:
        began = time.monotonic()
        etcd = f"http://127.0.0.1:{free_port()}"
        _start(parts, cluster, "etcd", *_etcd(etcd))
        server = _start(parts, cluster, "kube-apiserver", *_api_server(cluster, etcd))
        wait_until(lambda: _answers(cluster, server), READY_SECONDS_MAX, lambda: _log_end(folder, "kube-apiserver"))
        cluster.ready_s["API server"] = time.monotonic() - began
        _start(parts, cluster, "kube-controller-manager", *_controllers(cluster))
        _start(parts, cluster, "kube-scheduler", *_client(cluster), "--leader-elect=false", "--secure-port=0")
        options = (
            "--manage-nodes-with-label-selector",
            f"lab={PLAYED}",
            "--config",
            str(Path(__file__).with_name("stages.yaml")),
        )
        serve = ("--server-address", f"127.0.0.1:{free_port()}", "--node-lease-duration-seconds", "40")
        _start(parts, cluster, "kwok", *_client(cluster), *options, *serve)
        _furnish(cluster)
        cluster.ready_s["nodes"] = time.monotonic() - began
        yield cluster


def _start(parts: contextlib.ExitStack, cluster: Cluster, name: str, *options: str) -> GuardedProcess:
    path = program(name)
    process = GuardedProcess()
    parts.callback(process.close)
    process.start(["nice", "-n", "5", path, *options], str(cluster.folder / f"{name}.log"))
    return process


def _answers(cluster: Cluster, server: GuardedProcess) -> bool:
    assert server.status() is None, f"the API server has ended:\n{_log_end(cluster.folder, 'kube-apiserver')}"
    with contextlib.suppress(OSError):
        return cluster.api.ask("GET", "/readyz").status == 200
    return False


def _log_end(folder: Path, name: str) -> str:
    lines = (folder / f"{name}.log").read_text(errors="replace").splitlines()
    return "\n".join(lines[-LOG_LINES_SHOWN:])


def _etcd(url: str) -> list[str]:
    """In its guard's folder, which goes with it. Nothing here has to outlive a power cut."""
    peers = f"http://127.0.0.1:{free_port()}"
    urls = {"listen-client-urls": url, "advertise-client-urls": url, "listen-peer-urls": peers}
    urls |= {"initial-advertise-peer-urls": peers, "initial-cluster": f"default={peers}"}
    return [*(f"--{name}={value}" for name, value in urls.items()), "--data-dir=data", "--unsafe-no-fsync"]


def _api_server(cluster: Cluster, etcd: str) -> list[str]:
    folder = cluster.folder
    options = {
        "etcd-servers": etcd,
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "endpoint-reconciler-type": "none",  # an address of loopback is none that others could use
        "secure-port": str(cluster.api.port),
        "tls-cert-file": folder / "server.pem",
        "tls-private-key-file": folder / "server.key",
        "client-ca-file": cluster.authority,
        "token-auth-file": folder / "tokens.csv",
        "authorization-mode": "RBAC",
        "anonymous-auth": "false",
        "allow-privileged": "true",  # as clusters do: what refuses such pods is their namespace
        "enable-admission-plugins": "PodNodeSelector",  # besides those of old: service accounts, pod security …
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-signing-key-file": folder / "accounts.key",
        "service-account-key-file": folder / "accounts.pub",
        "service-cluster-ip-range": "10.96.0.0/16",
        "audit-policy-file": folder / "audit.yaml",
        "audit-log-path": cluster.audit,
        "audit-log-mode": "blocking",
    }
    return [f"--{name}={value}" for name, value in options.items()]


def _client(cluster: Cluster) -> list[str]:
    return [f"--kubeconfig={cluster.kubeconfig}"]


def _controllers(cluster: Cluster) -> list[str]:
    options = {
        "leader-elect": "false",
        "secure-port": "0",
        "service-account-private-key-file": cluster.folder / "accounts.key",
        "root-ca-file": cluster.authority,
        "node-monitor-grace-period": "1h",  # nobody renews what the node `hands` says of itself
    }
    return [*_client(cluster), *(f"--{name}={value}" for name, value in options.items())]


def _write_keys(folder: Path) -> None:
    authority = trustme.CA()
    server = authority.issue_cert("127.0.0.1", "kubernetes.default.svc")
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    server.private_key_pem.write_to_path(str(folder / "server.key"))
    (folder / "server.pem").write_bytes(b"".join(part.bytes() for part in server.cert_chain_pems))
    signing = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = signing.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (folder / "accounts.key").write_bytes(private)
    public = signing.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "accounts.pub").write_bytes(public)


def _write_files(cluster: Cluster) -> None:
    (cluster.folder / "tokens.csv").write_text(f'{ADMIN_TOKEN},admin,admin,"system:masters"\n')
    (cluster.folder / "audit.yaml").write_text(yaml.safe_dump(AUDIT))
    place = {"server": cluster.url, "certificate-authority": str(cluster.authority)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": place}],
        "users": [{"name": "admin", "user": {"token": ADMIN_TOKEN}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "admin"}}],
        "current-context": "lab",
    }
    cluster.kubeconfig.write_text(yaml.safe_dump(config))
    cluster.kubeconfig.chmod(0o600)


def _furnish(cluster: Cluster) -> None:
    """Nodes, and volumes that claims are bound to."""
    api = cluster.api
    api.create("/apis/storage.k8s.io/v1/storageclasses", STORAGE_CLASS)
    for number in range(VOLUMES):
        api.create("/api/v1/persistentvolumes", volume(f"volume-{number}"))
    for number in range(PLAYED_NODES):
        api.create("/api/v1/nodes", node(f"played-{number}", PLAYED))
    api.create("/api/v1/nodes", node("hands", REAL))
    state = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": ""}]}}
    api.patch("/api/v1/nodes/hands/status", state)
    wait_until(lambda: all(_usable(one) for one in api.items("/api/v1/nodes")), 60, lambda: api.items("/api/v1/nodes"))


def _usable(node: Tree) -> bool:
    ready = [one["status"] for one in node["status"].get("conditions", []) if one["type"] == "Ready"]
    return ready == ["True"] and not node["spec"].get("taints")

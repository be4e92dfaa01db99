"""What a kubelet makes of a pod's description before it starts anything: folders for volumes, texts with a meaning."""

import base64
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from tests.k8s.api import Tree
from tests.k8s.cluster import Cluster
from tests.k8s.podprocess import used

VARIABLE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
API_SERVER = re.compile(r"kubernetes\.default(\.svc(\.cluster\.local)?)?(:443)?\b")


class Rewriting:
    """The texts of one container, as a process without a container can use them."""

    def __init__(self, cluster: Cluster, pod: Tree, container: Tree, folders: Mapping[str, str], home: Path) -> None:
        """Paths below `home` are of this machine: a process whose texts were rewritten has told them to another pod."""
        self.folders = dict(folders)
        self._home = str(home)
        self._cluster = cluster
        self._pod = pod
        self._container = container
        self._namespace = pod["metadata"]["namespace"]

    def text(self, text: str) -> str:
        """Paths, names and the address of all interfaces, each replaced once."""
        paths = "|".join(re.escape(path) for path in sorted(self.folders, key=len, reverse=True))
        wanted = rf"{re.escape(self._home)}|(?<![\w.-])(?<![\w.-]/)({paths})(?![\w.-])"
        text = re.sub(wanted, lambda found: self.folders[found[1]] if found[1] else found[0], text)
        text = API_SERVER.sub(f"127.0.0.1:{self._cluster.api.port}", text)
        return self._services(text).replace("0.0.0.0", self._pod["status"]["podIP"])

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The container's own variables, which may refer to those given."""
        found: dict[str, str] = {}
        for source in self._container.get("envFrom", []):
            found |= self._all_of(source)
        for variable in self._container.get("env", []):
            value = self._value(variable)
            if value is not None:
                found[variable["name"]] = self.text(_expanded(value, {**given, **found}))
        return found

    def command(self, environment: Mapping[str, str], entrypoint: Sequence[str]) -> list[str]:
        """With the image's entry point, unless the container has a command of its own."""
        parts = [*self._container.get("command", []), *self._container.get("args", [])]
        first = () if "command" in self._container else entrypoint
        return [*first, *(self.text(_expanded(part, environment)) for part in parts)]

    def field(self, path: str) -> str:
        """What the downward API tells of the pod."""
        label = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
        if label:
            return str(self._pod["metadata"].get(label[1], {}).get(label[2], ""))
        here: Tree = self._pod
        *parts, last = path.split(".")
        for part in parts:
            here = here[part]
        return str(here[last])

    def _value(self, variable: Tree) -> str | None:
        source = variable.get("valueFrom")
        if source is None:
            return str(variable.get("value", ""))
        if "fieldRef" in source:
            return self.field(source["fieldRef"]["fieldPath"])
        ((kind, where),) = source.items()
        resource, decode = _SOURCES[kind.removesuffix("KeyRef")]
        path = f"/api/v1/namespaces/{self._namespace}/{resource}/{where['name']}"
        answer = self._cluster.api.ask("GET", path)
        if where.get("optional") and where["key"] not in answer.body.get("data", {}):
            return None
        return decode(answer.body["data"][where["key"]])

    def _all_of(self, source: Tree) -> dict[str, str]:
        path = f"/api/v1/namespaces/{self._namespace}/configmaps/{source['configMapRef']['name']}"
        return {name: self.text(text) for name, text in self._cluster.api.get(path)["data"].items()}

    def _services(self, text: str) -> str:
        """Names of services that select pods: the address of the first pod there is, as for one without an address."""
        where = f"/api/v1/namespaces/{self._namespace}"
        for service in self._cluster.api.items(f"{where}/services"):
            name = re.escape(service["metadata"]["name"])
            full = re.compile(rf"(?<![\w.-]){name}\.{self._namespace}(\.svc(\.cluster\.local)?)?(?![\w-])")
            if full.search(text):
                text = full.sub(self._behind(service), text)
        return text

    def _behind(self, service: Tree) -> str:
        chosen = service["spec"]["selector"]
        if chosen.items() <= self._pod["metadata"].get("labels", {}).items():
            return str(self._pod["status"]["podIP"])
        query = ",".join(f"{name}={value}" for name, value in chosen.items())
        pods = self._cluster.api.items(f"/api/v1/namespaces/{self._namespace}/pods", labelSelector=query)
        found = [used(pod["status"]["podIP"]) for pod in pods if "podIP" in pod["status"]]
        assert found, f"no pod is behind {service['metadata']['name']}"
        return found[0]


class Volumes:
    """The volumes of one pod as folders."""

    def __init__(self, cluster: Cluster, pod: Tree, place: Path, claims: Path, rewriting: Rewriting) -> None:
        self._cluster = cluster
        self._pod = pod
        self._place = place
        self._claims = claims
        self._rewriting = rewriting
        self._namespace = pod["metadata"]["namespace"]
        self._texts: list[Path] = []

    def fill(self) -> None:
        """Make and fill all folders."""
        self._place.mkdir(parents=True)
        for volume in self._pod["spec"].get("volumes", []):
            folder = self._folder(volume)
            folder.mkdir(parents=True, exist_ok=True)
            for kind, source in _sources(volume):
                for name, content in self._content(kind, source):
                    path = folder / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(content)
                    if kind == "configMap":
                        self._texts.append(path)

    def rewrite(self, verbatim: Collection[str]) -> None:
        """Rewrite what ConfigMaps give, for a process with its folders elsewhere; but not files of these names."""
        for path in self._texts:
            if path.name not in verbatim:
                path.write_text(self._rewriting.text(path.read_text()))

    def mounts(self, container: Tree) -> dict[str, str]:
        """Where each mount of the container stands."""
        volumes = {volume["name"]: volume for volume in self._pod["spec"].get("volumes", [])}
        found = {}
        for mount in container.get("volumeMounts", []):
            folder = self._folder(volumes[mount["name"]]) / str(mount.get("subPath", ""))
            if mount.get("subPath") and not folder.exists():
                folder.mkdir(parents=True)
            found[mount["mountPath"].rstrip("/")] = str(folder).rstrip("/")
        return found

    def _folder(self, volume: Tree) -> Path:
        if "persistentVolumeClaim" in volume:
            return self._claims / str(self._namespace) / str(volume["persistentVolumeClaim"]["claimName"])
        return self._place / "volumes" / str(volume["name"])

    def _content(self, kind: str, what: Tree) -> Iterator[tuple[str, str]]:
        """Names and texts of the files that one source gives."""
        match kind:
            case "serviceAccountToken":
                account = self._pod["spec"]["serviceAccountName"]
                yield what["path"], self._cluster.as_account(self._namespace, account).token
            case "downwardAPI":
                for item in what["items"]:
                    yield item["path"], self._rewriting.field(item["fieldRef"]["fieldPath"])
            case _:
                name = what.get("name") or what["secretName"]
                resource, decode = _SOURCES[kind]
                path = f"/api/v1/namespaces/{self._namespace}/{resource}/{name}"
                answer = self._cluster.api.ask("GET", path)
                assert answer.status == 200 or what.get("optional"), f"{resource}/{name}: {answer.message}"
                data: dict[str, str] = answer.body.get("data") or {}
                for item in what.get("items") or [{"key": key, "path": key} for key in data]:
                    yield item["path"], decode(data[item["key"]])


def _sources(volume: Tree) -> Iterator[tuple[str, Tree]]:
    """What a volume is filled from, with the kind of each."""
    for kind in ("configMap", "secret"):
        if kind in volume:
            yield kind, volume[kind]
    for source in volume.get("projected", {}).get("sources", []):
        yield from source.items()


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    """`$(NAME)` as Kubernetes reads it: a variable that is not there stays as it stands."""
    return VARIABLE.sub(lambda found: variables.get(found[1], found[0]), text)


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode()


_SOURCES: dict[str, tuple[str, Callable[[str], str]]] = {
    "secret": ("secrets", _decoded),
    "configMap": ("configmaps", str),
}
"""How a source is called in requests, and how its values are to be read."""

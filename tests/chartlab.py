"""Renders the Helm chart, and looks at what comes out."""

import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.make_chart import CHART, ROOT

Manifest = dict[str, Any]

WAYS = sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml"))
"""Ways of running: each has a file of values."""

NAMESPACE = "watch"
KINDS = (
    "monitoring.coreos.com/v1/ServiceMonitor",
    "monitoring.coreos.com/v1/PodMonitor",
    "monitoring.coreos.com/v1/PrometheusRule",
    "kafka.strimzi.io/v1/KafkaTopic",
)
"""What a cluster knows that has the operators for it."""

CLUSTER_WIDE = {"PriorityClass"}
ALLOWED_VOLUMES = {"configMap", "emptyDir", "persistentVolumeClaim", "projected", "secret"}
"""Of those that the restricted pod security standard allows, the ones that the chart uses."""


class Pod(NamedTuple):
    """A pod that some object makes, or that is one."""

    owner: str
    labels: Mapping[str, str]
    spec: Manifest


@cache
def program(name: str) -> str:
    """The path of a program that tools/charttools has built."""
    folder = subprocess.run([ROOT / "tools" / "charttools", "--path"], check=True, capture_output=True, text=True)
    path = Path(folder.stdout.strip()) / name
    assert path.exists(), f"{name} is not there: tools/charttools builds it"
    return str(path)


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program("helm"), *map(str, arguments)], capture_output=True, text=True, check=False)


def values_of(way: str) -> Path:
    return CHART / "ci" / f"{way}-values.yaml"


def template(
    way: str, *arguments: str | Path, release: str = "live", namespace: str = NAMESPACE, kinds: tuple[str, ...] = KINDS
) -> subprocess.CompletedProcess[str]:
    """`helm template` with the values of a way of running."""
    known = [word for kind in kinds for word in ("--api-versions", kind)]
    return helm("template", release, CHART, "-n", namespace, "-f", values_of(way), *known, *arguments)


def manifests(text: str) -> list[Manifest]:
    return [one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one]


def rendered(way: str, *arguments: str | Path, **settings: Any) -> list[Manifest]:
    """What a way of running comes to."""
    done = template(way, *arguments, **settings)
    assert done.returncode == 0, done.stderr
    return manifests(done.stdout)


def of_kind(found: list[Manifest], kind: str) -> list[Manifest]:
    return [one for one in found if one["kind"] == kind]


def named(found: list[Manifest], kind: str, name: str) -> Manifest:
    return next(one for one in of_kind(found, kind) if one["metadata"]["name"] == name)


def executor_template(found: list[Manifest]) -> Manifest | None:
    """The pod from which Spark makes those of executors, if there are any."""
    for one in of_kind(found, "ConfigMap"):
        if "pod.yaml" in one["data"]:
            pod: Manifest = yaml.safe_load(one["data"]["pod.yaml"])
            return pod
    return None


def pods(found: list[Manifest]) -> Iterator[Pod]:
    """All pods, those of executors too."""
    for one in found:
        name = f"{one['kind']} {one['metadata']['name']}"
        if one["kind"] in {"Deployment", "Job"}:
            yield Pod(name, one["spec"]["template"]["metadata"]["labels"], one["spec"]["template"]["spec"])
        elif one["kind"] == "Pod":
            yield Pod(name, one["metadata"]["labels"], one["spec"])
    executor = executor_template(found)
    if executor is not None:
        yield Pod("executors", executor["metadata"]["labels"], executor["spec"])


def is_selected(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return selector.items() <= labels.items()


def unrestricted(spec: Manifest) -> Iterator[str]:
    """What the restricted pod security standard would refuse, and what we ask for beyond it."""
    for field in ("hostNetwork", "hostPID", "hostIPC", "initContainers", "ephemeralContainers"):
        if spec.get(field):
            yield f"{field} is set"
    security = spec.get("securityContext", {})
    if security.get("runAsNonRoot") is not True or security.get("runAsUser") == 0:
        yield "it may run as root"
    if security.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "its system calls are not limited"
    for volume in spec.get("volumes", []):
        kinds = volume.keys() - {"name"}
        if not kinds <= ALLOWED_VOLUMES:
            yield f"the volume {volume['name']} is a {kinds}"
        if "emptyDir" in kinds and "sizeLimit" not in volume["emptyDir"]:
            yield f"the volume {volume['name']} has no limit"
    for container in spec["containers"]:
        own = container.get("securityContext", {})
        if own.get("allowPrivilegeEscalation") is not False or own.get("privileged"):
            yield f"{container['name']} may get privileges"
        if own.get("capabilities") != {"drop": ["ALL"]}:
            yield f"{container['name']} has capabilities"
        if own.get("readOnlyRootFilesystem") is not True:
            yield f"{container['name']} may write where it is not meant to"
        if any("hostPort" in port for port in container.get("ports", [])):
            yield f"{container['name']} takes a port of its node"


def references(spec: Manifest) -> Iterator[tuple[str, str, str]]:
    """What a pod refers to by name: kind, name and, where one is named, the key."""
    for volume in spec.get("volumes", []):
        if "persistentVolumeClaim" in volume:
            yield "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"], ""
        sources = volume.get("projected", {}).get("sources", [volume])
        for source in sources:
            for kind, field, name in (("ConfigMap", "configMap", "name"), ("Secret", "secret", "name")):
                if field in source:
                    held = source[field]
                    object_name = held.get(name) or held["secretName"]
                    for item in held.get("items", [{"key": ""}]):
                        yield kind, object_name, item["key"]
    if "serviceAccountName" in spec:
        yield "ServiceAccount", spec["serviceAccountName"], ""
    if "priorityClassName" in spec:
        yield "PriorityClass", spec["priorityClassName"], ""

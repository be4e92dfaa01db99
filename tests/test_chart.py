"""The chart as Helm renders it, for each way of running in helm/quorumscope/ci.

Its own unit tests (helm-unittest, a suite a template) are run here too. What is checked here is what only the whole
shows: that Kubernetes' schemas and the program take it, that all parts fit each other, and what is refused how.
"""

import base64
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import kubernetes_validate
import msgspec
import pytest
import yaml
from typer.main import get_command

from state.config import parse_duration_ms
from streaming.cli import app
from streaming.kafkafile import KafkaFile
from streaming.topics import Setup, plans
from tests.chartlab import (
    CLUSTER_WIDE,
    NAMESPACE,
    WAYS,
    Manifest,
    executor_template,
    helm,
    is_selected,
    manifests,
    named,
    of_kind,
    pods,
    program,
    references,
    rendered,
    template,
    unrestricted,
    values_of,
)
from tests.commandlab import quorumscope
from tests.make_chart import CHART, ROOT, helm_docs

pytestmark = pytest.mark.programs

VERSIONS = ["1.26", "1.31", kubernetes_validate.latest_version()]
"""The oldest Kubernetes that the chart is for, one of the middle, and the newest that there are schemas of."""

CUSTOM = {"ServiceMonitor", "PodMonitor", "PrometheusRule", "KafkaTopic"}
"""Kinds that Kubernetes has no schema of."""

RETENTIONS = ["500ms", "45s", "30m", "7d", "400d"]
ALLOWED_PODS = ["create", "get", "list", "watch", "delete", "deletecollection"]

EXECUTORS = ("kubernetes-uri", "kubernetes-shared-volume", "everything")


@pytest.fixture(scope="module")
def ways() -> dict[str, list[Manifest]]:
    """What each way of running comes to, where the cluster knows all kinds."""
    return {way: rendered(way) for way in WAYS}


def test_the_charts_own_tests_pass() -> None:
    done = subprocess.run([program("helm-unittest"), str(CHART)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    passed = re.search(r"Tests: +(\d+) passed, (\d+) total", done.stdout)
    assert passed is not None, done.stdout
    print(f"helm-unittest: {passed[1]} of {passed[2]} tests passed")
    assert int(passed[1]) == int(passed[2]) > 100


def test_each_template_has_a_suite() -> None:
    suites = {
        name for path in (CHART / "tests").glob("*_test.yaml") for name in yaml.safe_load(path.read_text())["templates"]
    }
    templates = CHART / "templates"
    names = {str(path.relative_to(templates)) for path in templates.rglob("*") if path.is_file()}
    assert suites == {name for name in names if not name.startswith("_")}


def test_the_readme_is_what_helm_docs_makes_of_the_values() -> None:
    assert helm_docs("--dry-run").stdout.strip() == (CHART / "README.md").read_text(encoding="utf-8").strip()


@pytest.mark.parametrize("way", WAYS)
def test_helm_finds_no_fault(way: str) -> None:
    done = helm("lint", "--strict", CHART, "-f", values_of(way))
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_address_and_a_file_of_swarms_are_all_that_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "swarms.yaml"
    file.write_text(yaml.safe_load(values_of("default").read_text())["swarms"]["file"])
    done = helm("template", "live", CHART, "--set", "kafka.bootstrap=kafka:9092", "--set-file", f"swarms.file={file}")
    assert done.returncode == 0, done.stderr
    kinds = Counter(one["kind"] for one in manifests(done.stdout))
    assert kinds["Deployment"] == 2
    assert not kinds.keys() & CUSTOM


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("way", WAYS)
def test_kubernetes_takes_every_object(ways: dict[str, list[Manifest]], way: str, version: str) -> None:
    executor = executor_template(ways[way])
    objects = [one for one in ways[way] if one["kind"] not in CUSTOM] + ([executor] if executor else [])
    for one in objects:
        kubernetes_validate.validate(one, version, strict=True)
    assert len(objects) >= 4


def test_a_field_that_kubernetes_does_not_know_would_be_found(ways: dict[str, list[Manifest]]) -> None:
    job = named(ways["default"], "Job", "live-quorumscope-topics")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**job, "spec": {**job["spec"], "retries": 3}}, VERSIONS[0], strict=True)


def test_an_older_kubernetes_is_refused() -> None:
    assert "which is incompatible with Kubernetes v1.25" in template("default", "--kube-version", "1.25").stderr


@pytest.mark.parametrize("way", WAYS)
def test_every_pod_is_restricted(ways: dict[str, list[Manifest]], way: str) -> None:
    found = {pod.owner: list(unrestricted(pod.spec)) for pod in pods(ways[way])}
    assert {owner: faults for owner, faults in found.items() if faults} == {}
    assert ("executors" in found) == (way in EXECUTORS)


@pytest.mark.parametrize("way", WAYS)
def test_only_a_driver_that_asks_for_executors_has_a_token(ways: dict[str, list[Manifest]], way: str) -> None:
    tokens = [
        pod.labels["app.kubernetes.io/component"] for pod in pods(ways[way]) if pod.spec["automountServiceAccountToken"]
    ]
    assert tokens == (["driver"] if way in EXECUTORS else [])
    assert all(one["automountServiceAccountToken"] is False for one in of_kind(ways[way], "ServiceAccount"))
    rules = [one["rules"] for one in of_kind(ways[way], "Role")]
    assert rules == ([[{"apiGroups": [""], "resources": ["pods"], "verbs": ALLOWED_PODS}]] if way in EXECUTORS else [])


@pytest.mark.parametrize("way", WAYS)
def test_all_that_pods_refer_to_is_there_or_is_the_operators(ways: dict[str, list[Manifest]], way: str) -> None:
    made = {(one["kind"], one["metadata"]["name"]): one for one in ways[way]}
    values = values_of(way).read_text(encoding="utf-8")
    for pod in pods(ways[way]):
        mounted = {mount["name"] for one in pod.spec["containers"] for mount in one["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod.spec["volumes"]}
        for kind, name, key in references(pod.spec):
            if (kind, name) in made:
                assert not key or key in made[kind, name]["data"]
            else:
                assert re.search(rf"\b{name}\b", values), f"{pod.owner}: there is no {kind} {name}"


@pytest.mark.parametrize("way", WAYS)
def test_services_policies_and_budgets_select_pods_that_are_there(ways: dict[str, list[Manifest]], way: str) -> None:
    there = list(pods(ways[way]))
    for service in of_kind(ways[way], "Service"):
        chosen = [pod for pod in there if is_selected(service["spec"]["selector"], pod.labels)]
        assert len(chosen) == 1
        ports = {port["name"] for one in chosen[0].spec["containers"] for port in one["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    policies = [one["spec"]["podSelector"]["matchLabels"] for one in of_kind(ways[way], "NetworkPolicy")]
    for pod in there:
        count = sum(is_selected(selector, pod.labels) for selector in policies)
        assert count == (0 if way == "minimal" else 1), f"{pod.owner}: {count} policies"
    for budget in of_kind(ways[way], "PodDisruptionBudget"):
        selector = budget["spec"]["selector"]["matchLabels"]
        assert sum(is_selected(selector, pod.labels) for pod in there) == 1


@pytest.mark.parametrize("way", WAYS)
def test_what_is_scraped_is_there(ways: dict[str, list[Manifest]], way: str) -> None:
    for one in of_kind(ways[way], "ServiceMonitor"):
        selector = one["spec"]["selector"]["matchLabels"]
        services = [x for x in of_kind(ways[way], "Service") if is_selected(selector, x["metadata"]["labels"])]
        ports = Counter(port["name"] for x in services for port in x["spec"]["ports"])
        assert {ports[endpoint["port"]] for endpoint in one["spec"]["endpoints"]} == {2}
    for one in of_kind(ways[way], "PodMonitor"):
        selector = one["spec"]["selector"]["matchLabels"]
        containers = [c for pod in pods(ways[way]) if is_selected(selector, pod.labels) for c in pod.spec["containers"]]
        ports = Counter(port["name"] for container in containers for port in container.get("ports", []))
        assert {ports[endpoint["port"]] for endpoint in one["spec"]["podMetricsEndpoints"]} == {2}
    kinds = Counter(one["kind"] for one in ways[way])
    assert kinds["ServiceMonitor"] + kinds["PodMonitor"] == (way != "minimal")


@pytest.mark.parametrize("way", WAYS)
def test_the_program_takes_every_argument(ways: dict[str, list[Manifest]], way: str) -> None:
    commands = get_command(app)
    for pod in pods(ways[way]):
        arguments = pod.spec["containers"][0].get("args", [])
        if pod.owner == "executors":
            assert arguments == []
            continue
        command = commands.commands[arguments[0]]  # type: ignore[attr-defined]  # a group has commands
        if arguments[0] == "swarm":
            command, arguments = command.commands[arguments[1]], arguments[1:]
        command.make_context(arguments[0], list(arguments[1:]))


@pytest.mark.parametrize("way", WAYS)
def test_the_program_takes_the_kafka_file_and_finds_its_secrets(ways: dict[str, list[Manifest]], way: str) -> None:
    for pod in pods(ways[way]):
        volume = next((one for one in pod.spec["volumes"] if one["name"] == "kafka"), None)
        if volume is None:
            assert pod.owner == "executors" or "swarms-check" in pod.owner
            continue
        sources = volume["projected"]["sources"]
        config = named(ways[way], "ConfigMap", sources[0]["configMap"]["name"])
        tree = yaml.safe_load(config["data"]["kafka.yaml"])
        file = msgspec.convert(tree, KafkaFile)
        assert file.protocol.startswith("SASL") == (file.sasl is not None)
        named_files = [value for part in ("sasl", "tls") for key, value in tree.get(part, {}).items() if "file" in key]
        mounted = [f"/etc/quorumscope/kafka/{item['path']}" for one in sources[1:] for item in one["secret"]["items"]]
        assert sorted(named_files) == sorted(mounted)


@pytest.mark.parametrize("way", EXECUTORS)
def test_the_key_of_spark_stands_in_its_secret_alone(ways: dict[str, list[Manifest]], way: str) -> None:
    secrets = of_kind(ways[way], "Secret")
    assert len(secrets) == (way != "everything")
    for one in secrets:
        (coded,) = one["data"].values()
        key = base64.b64decode(coded).decode()
        assert len(key) >= 32
        others = yaml.safe_dump([x for x in ways[way] if x is not one])
        assert coded not in others
        assert key not in others


@pytest.mark.parametrize("way", WAYS)
def test_no_secret_is_given_by_a_value(ways: dict[str, list[Manifest]], way: str) -> None:
    for pod in pods(ways[way]):
        for container in pod.spec["containers"]:
            by_value = {one["name"]: one["value"] for one in container["env"] if "value" in one}
            assert by_value.keys() <= {"HOME", "SPARK_LOCAL_DIRS", "TZ"}
            assert not re.search(
                r"(?i)(password|secret|token)=", " ".join(container.get("args", [])).replace("secret.driver.file=", "")
            )


def test_the_rules_are_those_of_the_project_and_promtool_takes_them(
    ways: dict[str, list[Manifest]], tmp_path: Path
) -> None:
    (rule,) = of_kind(ways["default"], "PrometheusRule")
    original = yaml.safe_load((ROOT / "dashboards" / "alerts" / "quorumscope.yaml").read_text(encoding="utf-8"))
    assert rule["spec"] == original
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rule["spec"]), encoding="utf-8")
    done = subprocess.run(
        ["promtool", "check", "rules", str(tmp_path / "rules.yaml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_dashboards_come_out_byte_for_byte(ways: dict[str, list[Manifest]]) -> None:
    found = {
        name: text
        for one in of_kind(ways["default"], "ConfigMap")
        if "grafana_dashboard" in one["metadata"]["labels"]
        for name, text in one["data"].items()
    }
    originals = (ROOT / "dashboards" / "grafana").glob("*.json")
    assert found == {f"quorumscope-{path.name}": path.read_text(encoding="utf-8") for path in originals}


def test_a_file_that_the_chart_takes_and_the_program_does_not_ends_the_hook(
    ways: dict[str, list[Manifest]], tmp_path: Path
) -> None:
    job = named(ways["default"], "Job", "live-quorumscope-swarms-check")
    text = named(ways["default"], "ConfigMap", "live-quorumscope-swarms-check")["data"]["swarms.yaml"]
    arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
    codes = job["spec"]["podFailurePolicy"]["rules"][1]["onExitCodes"]["values"]
    for file, code in (("right", 0), ("wrong", 2)):
        path = tmp_path / f"{file}.yaml"
        path.write_text(text if code == 0 else text.replace("rules: [majority, 2]", "rules: [majority, 3]"))
        done = quorumscope(*arguments[:-1], path)
        assert done.returncode == code
        assert (code in codes) == (code != 0)
    assert "expected majority, everyone or a number of peers from 1 to 2, got 3" in done.stderr


@pytest.mark.parametrize("retention", RETENTIONS)
def test_topics_of_strimzi_are_those_that_the_program_makes(retention: str) -> None:
    found = rendered("strimzi", "--set", f"topics.retention={retention},topics.partitions=6,kafka.prefix=Lab")
    setup = Setup("Lab", 6, 3, parse_duration_ms(retention))
    got = {
        one["spec"]["topicName"]: (
            one["spec"]["partitions"],
            {key: str(value) for key, value in one["spec"]["config"].items()},
        )
        for one in of_kind(found, "KafkaTopic")
    }
    assert got == {plan.name: (plan.partitions, plan.settings) for plan in plans(setup)}


def names(found: list[Manifest]) -> set[tuple[str, str, str]]:
    return {
        (
            one["kind"],
            "" if one["kind"] in CLUSTER_WIDE else one["metadata"].get("namespace", "?"),
            one["metadata"]["name"],
        )
        for one in found
    }


ALL = ("--set", "priorityClass.create=true,replay.enabled=true,replay.into=past,exporter.replicas=2")


def test_releases_in_one_namespace_have_no_name_in_common() -> None:
    releases = ["live", "quorumscope", "quorumscope-driver", "quorumscope-exporter", "quorumscope-kafka", "live-driver"]
    seen: dict[tuple[str, str, str], str] = {}
    for release in releases:
        for name in names(rendered("kubernetes-shared-volume", *ALL, release=release)):
            assert name not in seen, f"{name} is of {release} and of {seen[name]}"
            seen[name] = release


def test_releases_of_two_namespaces_have_no_name_in_common_where_they_meet() -> None:
    shared = (*ALL, "--set", "dashboards.namespace=monitoring")
    one, two = (names(rendered("strimzi", *shared, namespace=namespace)) for namespace in ("watch", "watch-2"))
    assert not one & two
    assert not any(namespace == "?" for _, namespace, _ in one)


def test_what_a_replay_is_asked_for_changes_its_name_because_a_job_cannot_be_changed() -> None:
    def made(*arguments: str) -> tuple[str, str]:
        found = rendered("replay", *arguments)
        job = next(one for one in of_kind(found, "Job") if "replay" in one["metadata"]["name"])
        claim = next(one for one in of_kind(found, "PersistentVolumeClaim") if "replay" in one["metadata"]["name"])
        return job["metadata"]["name"], claim["metadata"]["name"]

    first = made()
    assert made() == first
    newer = made("--set", "image.tag=0.2.0")
    assert (newer[0] != first[0], newer[1]) == (True, first[1])
    other = made("--set", "replay.into=other")
    assert other[0] != first[0]
    assert other[1] != first[1]


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (
        "default",
        {"kafka.bootstrap": "kafka"},
        'kafka.bootstrap: expected HOST:PORT, several separated by commas, got "kafka"',
    ),
    ("default", {"kafka.bootstrap": ""}, "kafka.bootstrap is required"),
    ("default", {"swarms.file": ""}, "swarms.file or swarms.existingConfigMap is required"),
    ("default", {"swarms.file": "swarms.yaml"}, "swarms.file is not YAML with a list `swarms`"),
    ("default", {"kafka.protocol": "SASL_SSL"}, "kafka.sasl.username and kafka.sasl.existingSecret are required"),
    ("default", {"spark.mode": "kubernetes"}, "checkpoint.accessMode is ReadWriteOnce"),
    (
        "kubernetes-uri",
        {"driver.shufflePartitions": 0},
        "driver.shufflePartitions is required with spark.mode=kubernetes",
    ),
    (
        "default",
        {"metrics.monitor": "ServiceMonitor"},
        "metrics.monitor is ServiceMonitor, and this cluster does not know",
    ),
    ("default", {"alerts.rules": "always"}, "alerts.rules is `always`, and this cluster does not know PrometheusRule"),
    ("strimzi", {}, "topics.create is `strimzi`, and this cluster does not know KafkaTopic"),
    ("replay", {"replay.into": "quorumscope"}, "replay.into is"),
    ("default", {"driver.patience": "1 minute"}, "at '/driver/patience': '1 minute' does not match pattern"),
    ("default", {"driver.shufflePartitions": "many"}, "at '/driver/shufflePartitions': got string, want integer"),
    ("default", {"exporter.replica": "2"}, "at '/exporter': additional properties 'replica' not allowed"),
]


@pytest.mark.parametrize(("way", "values", "words"), REFUSED, ids=[words[:40] for _, _, words in REFUSED])
def test_a_wrong_value_is_refused_with_which_and_why(way: str, values: dict[str, Any], words: str) -> None:
    options = [f"--set={name}={value}" for name, value in values.items()]
    done = template(way, *options, kinds=())
    assert done.returncode != 0
    assert words in done.stderr


def test_the_namespace_of_the_release_is_that_of_its_objects(ways: dict[str, list[Manifest]]) -> None:
    elsewhere = {"strimzi": {"kafka"}, "everything": {"monitoring"}}
    for way, found in ways.items():
        spaces = {one["metadata"]["namespace"] for one in found if one["kind"] not in CLUSTER_WIDE}
        assert spaces == {NAMESPACE} | elsewhere.get(way, set())

"""What an installation is refused for, on a real API server: with a sentence that says what and why, and no trace."""

import base64
from typing import Any

import pytest

from tests.k8s.helmlab import Release
from tests.k8s.valueslab import kubernetes, local

SASL = {"protocol": "SASL_PLAINTEXT", "sasl": {"username": "monitor", "existingSecret": "login"}}


def give(release: Release, name: str, **data: str) -> None:
    """A Secret."""
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded}
    release.cluster.api.create(f"/api/v1/namespaces/{release.namespace}/secrets", body)


def test_a_secret_that_is_missing_and_then_one_without_the_key(release: Release) -> None:
    values = local(kafka=SASL)
    said = release.refused(values)
    assert f"kafka.sasl.existingSecret: there is no Secret login in the namespace {release.namespace}" in said
    give(release, "login", passwort="x")
    assert 'the Secret login has no key "password"; it has: passwort' in release.refused(values)
    values["kafka"]["sasl"]["passwordKey"] = "passwort"
    release.install(values)


def test_a_secret_that_comes_later_can_be_said_to_come_later(release: Release) -> None:
    release.install(local(kafka=SASL, checkSecrets=False))


def test_a_key_for_executors_that_is_too_short(release: Release) -> None:
    give(release, "key", secret="short")
    said = release.refused(kubernetes(spark={"auth": {"existingSecret": "key"}}))
    assert 'the value of "secret" in the Secret key has fewer than 32 characters' in said


def test_a_configmap_of_swarms_that_is_missing(release: Release) -> None:
    said = release.refused(local(swarms={"file": "", "existingConfigMap": "mine"}))
    assert f"swarms.existingConfigMap: there is no ConfigMap mine in the namespace {release.namespace}" in said


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"metrics": {"monitor": "ServiceMonitor"}},
            "metrics.monitor is ServiceMonitor, and this cluster does not know",
        ),
        (
            {"metrics": {"monitor": "PodMonitor"}},
            "metrics.monitor is PodMonitor, and this cluster does not know that kind",
        ),
        ({"alerts": {"rules": "always"}}, "alerts.rules is `always`, and this cluster does not know PrometheusRule"),
        (
            {"topics": {"create": "strimzi", "strimzi": {"cluster": "k"}}},
            "topics.create is `strimzi`, and this cluster does not know KafkaTopic",
        ),
    ],
    ids=["servicemonitor", "podmonitor", "prometheusrule", "kafkatopic"],
)
def test_a_kind_that_the_cluster_does_not_know(release: Release, values: dict[str, Any], sentence: str) -> None:
    assert sentence in release.refused(local(**values))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"kafka": {"bootstrap": ""}}, "kafka.bootstrap is required"),
        ({"kafka": {"bootstrap": 9092}}, "kafka.bootstrap"),
        ({"kafka": {"protocol": "PLAIN"}}, "kafka.protocol"),
        ({"executor": {"instances": 3}}, "executor"),
        ({"driver": {"cores": "two"}}, "driver.cores"),
        ({"swarms": {"file": "swarms: []"}}, "swarms.file: expected a list `swarms` with one swarm or more"),
    ],
    ids=["required", "type", "choice", "unknown", "number", "swarms"],
)
def test_wrong_values(release: Release, values: dict[str, Any], sentence: str) -> None:
    assert sentence in release.refused(local(**values)).replace("/", ".")


def test_an_upgrade_with_wrong_values_leaves_the_release_as_it_was(release: Release) -> None:
    release.install(local())
    before = release.manifest()
    done = release.put("upgrade", local(kafka={"protocol": "PLAIN"}))
    assert done.code != 0
    assert "protocol" in done.err
    assert release.manifest() == before

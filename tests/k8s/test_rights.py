"""What the service accounts of a release may do, asked of the API server itself: what Spark needs, and nothing else."""

import pytest

from tests.k8s.api import Api, Tree
from tests.k8s.cluster import Cluster
from tests.k8s.helmlab import Release
from tests.k8s.valueslab import SPARKS_VERBS, kubernetes, local

COMPONENT = "app.kubernetes.io/component"
DRIVER, EXECUTOR = "watch-quorumscope-driver", "watch-quorumscope-executor"

Rule = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


def rules(api: Api, namespace: str) -> set[Rule]:
    """All that whoever asks may do in a namespace, as the API server sees it."""
    body = {"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1", "spec": {"namespace": namespace}}
    found = api.create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body)["status"]
    assert not found["incomplete"]
    listed: list[Tree] = [*found["resourceRules"], *found["nonResourceRules"]]
    return {
        (
            tuple(sorted(rule["verbs"])),
            tuple(sorted(rule.get("resources") or rule["nonResourceURLs"])),
            tuple(sorted(rule.get("apiGroups", []))),
        )
        for rule in listed
    }


def beyond_everybody(release: Release, account: str, namespace: str) -> set[Rule]:
    """What an account may do that one with no rights of its own may not."""
    nobody = release.cluster.as_account(release.namespace, "default")
    mine = release.cluster.as_account(release.namespace, account)
    return rules(mine, namespace) - rules(nobody, namespace)


@pytest.fixture(scope="module")
def spread(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release with executors as pods, and a replay."""
    found = Release(cluster, cluster.new_namespace("rights-spread"), tmp_path_factory.mktemp("spread"))
    found.install(kubernetes(replay={"enabled": True, "into": "again"}))
    return found


def with_token(release: Release) -> set[str]:
    """The components whose pods are given a token."""
    pods = release.pods(**{"app.kubernetes.io/part-of": "quorumscope"})
    assert pods
    return {pod["metadata"]["labels"][COMPONENT] for pod in pods if "serviceAccountToken" in str(pod["spec"])}


def test_the_driver_may_do_with_pods_what_spark_needs_and_nothing_else(spread: Release) -> None:
    assert beyond_everybody(spread, DRIVER, spread.namespace) == {(tuple(sorted(SPARKS_VERBS)), ("pods",), ("",))}


@pytest.mark.parametrize("place", ["default", "kube-system"])
def test_the_driver_may_do_nothing_elsewhere(spread: Release, place: str) -> None:
    assert beyond_everybody(spread, DRIVER, place) == set()


def test_executors_may_do_nothing(spread: Release) -> None:
    assert beyond_everybody(spread, EXECUTOR, spread.namespace) == set()


def test_only_the_driver_of_executors_as_pods_has_a_token(spread: Release) -> None:
    assert with_token(spread) == {"driver"}


def test_without_executors_as_pods_the_driver_may_do_nothing_and_no_pod_has_a_token(release: Release) -> None:
    release.install(local())
    assert beyond_everybody(release, DRIVER, release.namespace) == set()
    assert with_token(release) == set()


ALLOWED = ["create pods", "get pods", "list pods", "watch pods", "delete pods", "deletecollection pods"]
REFUSED = [
    "get secrets",
    "list secrets",
    "list configmaps",
    "create configmaps",
    "create services",
    "create persistentvolumeclaims",
    "create deployments.apps",
    "create jobs.batch",
    "create pods/exec",
    "create pods/attach",
    "create pods/ephemeralcontainers",
    "create pods/eviction",
    "get pods/log",
    "patch pods",
    "update pods",
    "create serviceaccounts/token",
    "impersonate serviceaccounts",
    "create rolebindings.rbac.authorization.k8s.io",
    "escalate roles.rbac.authorization.k8s.io",
]
REFUSED_EVERYWHERE = ["list nodes", "list namespaces", "get nodes/proxy", "list pods", "create pods", "get secrets"]


def test_kubectl_says_the_same(spread: Release) -> None:
    """As an operator would ask: `kubectl auth can-i … --as=system:serviceaccount:…`."""

    def can(question: str, *where: str) -> str:
        verb, resource = question.split()
        kind, _, part = resource.partition("/")
        asked = (verb, kind, *(("--subresource", part) if part else ()))
        account = f"--as=system:serviceaccount:{spread.namespace}:{DRIVER}"
        return spread.cluster.kubectl("auth", "can-i", *asked, account, *where).stdout.strip()

    here = ("--namespace", spread.namespace)
    assert {question: can(question, *here) for question in ALLOWED} == dict.fromkeys(ALLOWED, "yes")
    assert {question: can(question, *here) for question in REFUSED} == dict.fromkeys(REFUSED, "no")
    everywhere = {question: can(question, "--all-namespaces") for question in REFUSED_EVERYWHERE}
    assert everywhere == dict.fromkeys(REFUSED_EVERYWHERE, "no")


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/api/v1/namespaces/{here}/secrets/watch-quorumscope-spark"),
        ("GET", "/api/v1/namespaces/{here}/configmaps"),
        ("GET", "/apis/apps/v1/namespaces/{here}/deployments"),
        ("GET", "/api/v1/namespaces/kube-system/pods"),
        ("GET", "/api/v1/nodes"),
        ("POST", "/api/v1/namespaces/{here}/pods/{driver}/exec?command=sh"),
        ("PATCH", "/api/v1/namespaces/{here}/pods/{driver}"),
    ],
)
def test_requests_with_its_token_are_refused(spread: Release, verb: str, path: str) -> None:
    (driver,) = spread.pods(**{COMPONENT: "driver"})
    api = spread.cluster.as_account(spread.namespace, DRIVER)
    assert api.ask("GET", f"/api/v1/namespaces/{spread.namespace}/pods").status == 200
    named = path.format(here=spread.namespace, driver=driver["metadata"]["name"])
    assert api.ask(verb, named, {} if verb != "GET" else None, "application/merge-patch+json").status == 403

"""The image: built as a release builds it, looked at file by file, and run as a pod runs it."""

import os
import re
import signal
import stat
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from fnmatch import fnmatch
from hashlib import sha256
from importlib.metadata import distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from producers.scenarios import SCENARIOS
from producers.swarm import Settings
from state.connection import Connection
from streaming.broker import Broker
from streaming.services import free_port
from tests.imagelab import PROJECT, USER, Image, Pod, build, first_process, project_version
from tests.joblab import Deployment
from tests.topiclab import differences, fold_alone, read_topic

pytestmark = [pytest.mark.programs, pytest.mark.spark, pytest.mark.kafka]

MB = 1_000_000
COMPRESSED_MB_MAX = 470
UNCOMPRESSED_MB_MAX = 900
ANSWER_SECONDS_MAX = 60.0
OTHER_USER = 1_000_730_000
"""As OpenShift numbers users."""

CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    folder = tmp_path_factory.mktemp("image")
    started = time.monotonic()
    built = build(folder)
    print(f"built in {time.monotonic() - started:.0f} s")
    yield built
    subprocess.run(["rm", "-rf", folder], check=True)


@pytest.fixture
def pod(image: Image, tmp_path: Path) -> Pod:
    return Pod(image, tmp_path)


def test_it_says_what_it_is_and_how_large_it_is(image: Image, pod: Pod, capsys: pytest.CaptureFixture[str]) -> None:
    compressed_mb, uncompressed_mb = image.compressed_bytes // MB, image.uncompressed_bytes // MB
    with capsys.disabled():
        print(f"\nthe image: {compressed_mb} MB in a registry, {uncompressed_mb} MB unpacked")
    assert 100 < compressed_mb <= COMPRESSED_MB_MAX
    assert 300 < uncompressed_mb <= UNCOMPRESSED_MB_MAX
    config = image.config
    assert config["User"] == f"{USER}:{USER}"
    assert config["Entrypoint"] == ["/usr/bin/tini", "--", "quorumscope"]
    assert not config.get("Cmd")
    assert config["StopSignal"] == "SIGTERM"
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in config["Labels"].items()}
    assert (labels["title"], labels["version"]) == ("quorumscope", project_version())
    assert labels["revision"] == "0123456789abcdef"
    for arguments in ([], ["--help"]):
        done = pod.quorumscope(*arguments)
        assert "Usage: quorumscope" in done.stdout + done.stderr, done
    told = pod.run("python", "-c", "from importlib.metadata import version; print(version('quorumscope'))")
    assert told.stdout.strip() == project_version(), told.stderr


def test_it_holds_the_packages_that_the_project_asks_for_at_their_pins_and_no_other(image: Image) -> None:
    (site,) = image.root.glob("opt/quorumscope/venv/lib/python3*/site-packages")
    found = {canonicalize_name(one.name): one.version for one in distributions(path=[str(site)])}
    pins = dict(line.split("==") for line in (PROJECT / "constraints.txt").read_text().splitlines() if line[0] != "#")
    needed = closure({"quorumscope"}) - {"quorumscope"}
    assert found == {canonicalize_name(name): pin for name, pin in pins.items() if canonicalize_name(name) in needed}
    (jars,) = image.root.glob("opt/quorumscope/cache/jars/*")
    lock = [line.split() for line in (PROJECT / "streaming" / "jars.lock").read_text().splitlines()]
    wanted = {name: digest for digest, name in lock if name.startswith("spark/")}
    got = {path.relative_to(jars).as_posix(): path for path in jars.rglob("*") if path.is_file()}
    assert {name: sha256(path.read_bytes()).hexdigest() for name, path in got.items()} == wanted


def closure(names: set[str]) -> set[str]:
    """These packages and all that they ask for, as this environment's own metadata tell."""
    asked = {
        canonicalize_name(requirement.name)
        for name in names
        for requirement in map(Requirement, requires(name) or [])
        if not requirement.marker or requirement.marker.evaluate({"extra": ""})
    }
    return names if asked <= names else closure(names | asked)


def test_nothing_in_it_builds_installs_or_came_from_the_machine_that_built_it(image: Image) -> None:
    paths = {path.relative_to(image.root).as_posix() for path in image.files()}
    programs = {Path(path).name for path in paths if "/bin/" in f"/{path}" or "/sbin/" in f"/{path}"}
    tools = "pip* apt* gcc* cc c++ g++* cpp cpp-* ld ld.bfd as make cmake git curl wget javac jar jlink jmod sudo"
    assert sorted(name for name in programs for tool in tools.split() if fnmatch(name, tool)) == []
    folders = ("root/", "build/", "home/", "run/", "tmp/", "var/log/", "var/lib/apt/", "var/cache/", "etc/apt/")
    assert sorted(path for path in paths if path.startswith(folders)) == []
    assert sorted(path for path in paths if fnmatch(path, "*pip.conf") or "/site-packages/pip/" in path) == []
    assert [name for name in image.environment if "PROXY" in name.upper()] == []
    bundle = (image.root / "etc/ssl/certs/ca-certificates.crt").read_text()
    known = "".join(path.read_text() for path in image.root.glob("usr/share/ca-certificates/mozilla/*.crt"))
    assert CERTIFICATE.findall(bundle)
    assert set(CERTIFICATE.findall(bundle)) <= set(CERTIFICATE.findall(known))


def test_no_file_of_it_gives_rights_or_can_be_changed(image: Image, pod: Pod) -> None:
    paths = {path.relative_to(image.root).as_posix(): path.lstat() for path in image.root.rglob("*")}
    plain = {path: status for path, status in paths.items() if not stat.S_ISLNK(status.st_mode)}
    assert {path for path, status in plain.items() if status.st_mode & stat.S_IWOTH} <= {"tmp", "var/tmp", "run/lock"}
    assert {path for path, status in plain.items() if status.st_uid != 0} == {"scratch", "checkpoint"}
    rights = stat.S_ISUID | stat.S_ISGID
    assert [path for path, status in plain.items() if status.st_mode & rights and stat.S_ISREG(status.st_mode)] == []
    found = pod.run("find", "/", "-xdev", "-writable")
    assert set(found.stdout.split()) == {"/tmp", "/scratch", "/checkpoint"}, found
    who = pod.run(
        "sh", "-c", "id -u; id -g; id -un; grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status | cut -f 2; pwd"
    )
    assert who.stdout.split() == ["10001", "10001", "quorumscope", "0" * 16, "0" * 16, "1", "/tmp"], who


def test_the_job_in_it_says_what_a_plain_process_says_and_the_exporter_in_it_serves_that(
    broker: Broker, pod: Pod
) -> None:
    simulation = SCENARIOS["lying-bridge"].run(Settings(seed=8))
    deployment = Deployment(Connection(bootstrap=broker.bootstrap), "in-image", simulation.config, pod.folder / "tmp")
    deployment.publish(simulation.records)
    common = ["--swarms=/tmp/in-image.yaml", "--prefix=in-image", f"--bootstrap={broker.bootstrap}"]
    done = pod.quorumscope("run", "--available-now", "--checkpoint=/checkpoint", "--master=local[2]", *common)
    assert done.returncode == 0, done
    want = fold_alone(simulation.config, read_topic(deployment.connection, "in-image.segments"))
    assert {key.split(b"/")[0] for key in want} >= {b"fork", b"equivocation", b"accepted"}
    assert differences(deployment.verdicts(), want) == {}
    assert (pod.folder / "checkpoint" / "segments").is_dir()
    address = f"127.0.0.1:{free_port()}"
    exporter = pod.start(*pod.image.config["Entrypoint"], "exporter", f"--listen={address}", *common)
    try:
        live = answer(f"http://{address}/-/live", exporter)
        metrics = answer(f"http://{address}/metrics", exporter)
        os.kill(first_process(exporter), signal.SIGTERM)
        out, err = exporter.communicate(timeout=ANSWER_SECONDS_MAX)
    finally:
        exporter.kill()
    assert live.strip() == "live"
    assert re.search(r"^quorumscope_forks_total\{[^}]*\} [1-9]", metrics, re.MULTILINE), metrics[:2000]
    assert exporter.returncode == 0, (out, err)


def answer(url: str, process: subprocess.Popen[str]) -> str:
    """What is served there, once something is."""
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                return str(response.read().decode())
        except urllib.error.URLError:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "it does not answer"
            time.sleep(0.05)


ASK_KUBERNETES = """
import sys
from streaming.session import start_session

start_session(f"k8s://https://{sys.argv[1]}", 1, {
    "spark.kubernetes.container.image": "quorumscope",
    "spark.kubernetes.driver.pod.name": "driver",
    "spark.driver.host": "127.0.0.1",
    "spark.authenticate": "true",
    "spark.authenticate.secret": "shared",
    "spark.network.crypto.enabled": "true",
})
"""


def test_its_spark_can_ask_kubernetes_for_executors(pod: Pod) -> None:
    # Nobody is there: a driver that gets as far as to say so has all that its client of Kubernetes is made of.
    nobody = f"127.0.0.1:{free_port()}"
    asked = pod.run("python", "-c", ASK_KUBERNETES, nobody)
    assert asked.returncode == 1
    assert "KubernetesClientException: Operation: [get]  for kind: [Pod]  with name: [driver]" in asked.stderr, asked
    assert f"java.io.IOException: Connection refused: /{nobody}" in asked.stderr


@pytest.mark.parametrize("user", [USER, OTHER_USER])
def test_its_executor_starts_as_spark_starts_it_whatever_the_number_of_its_user(
    image: Image, tmp_path: Path, user: int
) -> None:
    pod = Pod(image, tmp_path, user)
    tini = image.config["Entrypoint"][:2]
    executor = [*tini, "/opt/quorumscope/executor", "executor"]
    refused = pod.run(*executor)
    assert refused.returncode == 2
    assert re.fullmatch(r"executor: .* with SPARK_DRIVER_URL in the environment, .*\n", refused.stderr)
    # Nobody is at the driver's address: an executor that gets as far as to say so has its Java, its classes, its
    # options and a name for its user.
    nobody = f"127.0.0.1:{free_port()}"
    alone = pod.run(
        *executor,
        SPARK_DRIVER_URL=f"spark://CoarseGrainedScheduler@{nobody}",
        SPARK_EXECUTOR_ID="1",
        SPARK_EXECUTOR_CORES="1",
        SPARK_EXECUTOR_MEMORY="512m",
        SPARK_APPLICATION_ID="spark-app",
        SPARK_EXECUTOR_POD_IP="127.0.0.1",
        SPARK_EXECUTOR_POD_NAME="exec-1",
        SPARK_RESOURCE_PROFILE_ID="0",
        SPARK_JAVA_OPT_0="-Dspark.rpc.numRetries=0",
        SPARK_JAVA_OPT_1="-Dnote=two words; $(not run)",
        SPARK_JAVA_OPT_2="-XshowSettings:properties",
    )
    assert alone.returncode == 1, alone
    assert f"Connection refused: /{nobody}" in alone.stdout + alone.stderr, alone
    assert "note = two words; $(not run)" in alone.stdout + alone.stderr

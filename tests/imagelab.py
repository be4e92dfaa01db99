"""Builds the image as a release does, from a base of our own, and runs it as a pod does: a user without rights, a root
that cannot be written, and three folders that can.

There is no daemon: `buildah` builds in a folder that goes away, the result is unpacked, and programs start in
namespaces of their own. The network is the machine's, for brokers on loopback.
"""

import json
import os
import shlex
import ssl
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

PROJECT = Path(__file__).parents[1]
USER = 10001
WRITABLE = ("tmp", "scratch", "checkpoint")
BUILD_SECONDS_MAX = 900  # two minutes on an idle machine with two cores; a dead line must not hang the suite

# What of pip's settings tells where packages come from. The rest is the user's taste, or a path of this machine.
PIP_SETTINGS = ("index-url", "extra-index-url", "trusted-host", "proxy", "default-timeout")

# What a container's runtime does: the pod's folders, the usual devices, names of hosts; all else is read-only.
START = """
set -eu
root=$1 pod=$2 user=$3
shift 3
mount --make-rprivate /
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 none "$root/dev"
for device in null zero full random urandom; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir "$root/dev/shm"
mount -o remount,ro "$root/dev"
mount -t tmpfs -o mode=1777 none "$root/dev/shm"
for folder in tmp scratch checkpoint; do mount --bind "$pod/$folder" "$root/$folder"; done
for file in hosts resolv.conf; do mount --bind "/etc/$file" "$root/etc/$file"; done
cd /
exec chroot "$root" /usr/bin/setpriv --reuid="$user" --regid="$user" --clear-groups --no-new-privs --inh-caps=-all \\
    --bounding-set=-all /usr/bin/env -i -C "$WORKDIR" "$@"
"""
ISOLATE = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", START, "start"]


class Image(NamedTuple):
    """What was built: the files, the configuration, and what a registry would store."""

    root: Path
    config: dict[str, Any]
    compressed_bytes: int

    @property
    def environment(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.config["Env"])

    @property
    def uncompressed_bytes(self) -> int:
        files = {(s.st_ino, s.st_size) for path in self.files() if (s := path.lstat()).st_nlink}
        return sum(size for _, size in files)

    def files(self) -> Iterator[Path]:
        for folder, _, names in os.walk(self.root):
            yield from (Path(folder, name) for name in names)


class Pod:
    """Three folders that can be written, and the image."""

    def __init__(self, image: Image, folder: Path, user: int = USER) -> None:
        self.image = image
        self.folder = folder
        self.user = user
        for name in WRITABLE:
            path = folder / name
            path.mkdir()
            os.chown(path, user, user)

    def start(self, *command: str, **environment: str) -> subprocess.Popen[str]:
        """Start a program of the image; the caller ends it."""
        variables = self.image.environment | {"HOME": "/tmp", "SPARK_LOCAL_DIRS": "/scratch"} | environment
        words = [f"{name}={value}" for name, value in variables.items()]
        return subprocess.Popen(
            [*ISOLATE, str(self.image.root), str(self.folder), str(self.user), *words, *command],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "WORKDIR": self.image.config["WorkingDir"]},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str, seconds: float = 180, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the image to its end."""
        process = self.start(*command, **environment)
        try:
            out, err = process.communicate(timeout=seconds)
        finally:
            process.kill()
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def quorumscope(self, *arguments: str, seconds: float = 180) -> subprocess.CompletedProcess[str]:
        """Run the image with these arguments."""
        return self.run(*self.image.config["Entrypoint"], *arguments, seconds=seconds)


def first_process(process: subprocess.Popen[str]) -> int:
    """The process of a pod that is number 1 in it, by its number outside; it gets the signals of a runtime."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
    return int(children[0])


def build(folder: Path) -> Image:
    """Build the image and unpack it into the folder."""
    layout = folder / "layout"
    with _storage(folder) as buildah:
        base = _import_base(buildah)
        secrets = [f"--secret=id={path.name},src={path}" for path in _secrets(folder)]
        here = PROJECT / "helm" / "image"
        _run(
            *buildah, "bud", "--isolation=chroot", "--pull-never", "--jobs=2", "--disable-compression=false",
            f"--file={here / 'Dockerfile'}",
            f"--ignorefile={here / 'Dockerfile.dockerignore'}", f"--build-arg=BASE={base}",
            f"--build-arg=VERSION={project_version()}", "--build-arg=REVISION=0123456789abcdef", *secrets,
            f"--tag=oci:{layout}:built", str(PROJECT),
        )  # fmt: skip
    return _unpacked(layout, folder / "root")


def project_version() -> str:
    return str(tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


@contextmanager
def _storage(folder: Path) -> Iterator[list[str]]:
    """The words that begin a call of buildah; what it keeps goes away."""
    storage, run = folder / "storage", folder / "run"
    try:
        yield ["buildah", "--storage-driver=vfs", f"--root={storage}", f"--runroot={run}"]
    finally:
        subprocess.run(["rm", "-rf", storage, run], check=True)


def _import_base(buildah: list[str]) -> str:
    program = str(PROJECT / "tools" / "imagebase")
    _run(program)
    archive = _run(program, "--path")
    container = _run(*buildah, "from", "scratch")
    _run(*buildah, "add", "--quiet", container, archive, "/")
    _run(*buildah, "commit", "--quiet", "--rm", container, "localhost/base")
    return "localhost/base"


def _secrets(folder: Path) -> list[Path]:
    """How this machine reaches its package indexes, for the build alone."""
    settings = [line.partition("=") for line in _run(sys.executable, "-m", "pip", "config", "list").splitlines()]
    chosen = {name.rpartition(".")[2]: shlex.split(value)[0] for name, _, value in settings if value}
    lines = ["[global]", *(f"{name} = {value}" for name, value in chosen.items() if name in PIP_SETTINGS)]
    found = {}
    if authorities := chosen.get("cert") or ssl.get_default_verify_paths().cafile:
        found["ca.pem"] = Path(authorities).read_text(encoding="utf-8")
        lines.append("cert = /run/secrets/ca.pem")
    if ivy := os.environ.get("QUORUMSCOPE_IVY_SETTINGS"):
        found["ivysettings.xml"] = Path(ivy).read_text(encoding="utf-8")
    found["pip.conf"] = "\n".join(lines)
    for name, text in found.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in found]


def _unpacked(layout: Path, root: Path) -> Image:
    def blob(descriptor: dict[str, Any]) -> Path:
        path = layout / "blobs" / descriptor["digest"].replace(":", "/")
        assert f"sha256:{sha256(path.read_bytes()).hexdigest()}" == descriptor["digest"]
        return path

    (named,) = json.loads((layout / "index.json").read_bytes())["manifests"]
    manifest = json.loads(blob(named).read_bytes())
    root.mkdir()
    for layer in manifest["layers"]:
        _run("tar", "-xz", "--numeric-owner", "--same-owner", f"--file={blob(layer)}", f"--directory={root}")
    for name in ("proc", "dev", "etc/hosts", "etc/resolv.conf"):  # where a runtime mounts, and so makes, its own
        path = root / name
        path.touch() if "/" in name else path.mkdir(exist_ok=True)
    config = json.loads(blob(manifest["config"]).read_bytes())["config"]
    return Image(root, config, sum(layer["size"] for layer in manifest["layers"]))


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS_MAX)
    assert done.returncode == 0, (
        f"{command[0]} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    )
    return done.stdout.strip()

"""`quorumscope demo` as a new user runs it: to its end, and with Ctrl-C in the middle."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.commandlab import command, quorumscope

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def descendants(folder: Path) -> list[str]:
    """The command lines of processes that name this folder: what a demo that has ended must not leave behind."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if f"TMPDIR={folder}".encode() in environment:
            found.append(line)
    return found


def test_the_demo_tells_the_whole_story_and_proves_it_within_three_minutes(tmp_path: Path) -> None:
    started = time.monotonic()
    done = quorumscope("demo", "--out", tmp_path, timeout_s=180)
    print(f"\ndemo: {time.monotonic() - started:.0f} s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert done.stdout.endswith("every liar and every split was found, and nothing else\n")
    for told in ("!! peer-2 forked", "!! peer-5 forked", "!! the swarm is split", "-- the swarm was split", "peer-5 a"):
        assert told in done.stdout
    assert "written while the swarm was split" in done.stdout
    commands = [line.partition("quorumscope ")[2].split() for line in done.stdout.splitlines() if " verify " in line]
    proved = [quorumscope(*words).stdout for words in commands]
    assert [sentence.split()[1] for sentence in proved] == ["peer-2", "peer-5", "op"]
    assert "is accepted by the rule majority" in proved[-1]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at the processes of a Linux system")
def test_ctrl_c_ends_the_demo_and_leaves_nothing_behind(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        command("demo", "--out", tmp_path / "out"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"TMPDIR": str(scratch)},
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "verified" in line:
            break
    # A terminal sends it to the whole group.
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    deadline = time.monotonic() + 20
    while descendants(scratch) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert descendants(scratch) == []
    assert [path.name for path in scratch.iterdir() if path.name.startswith("quorumscope")] == []

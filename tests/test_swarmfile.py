"""The file of swarms: what is written is what is read."""

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from producers.swarmfile import config_yaml, swarm_config
from state.config import ConfigError, parse_config
from state.signing import SigningKey

START = datetime(2026, 1, 1, tzinfo=UTC)
ROSTER = {name: SigningKey(bytes([number]) * 32).public.hex() for number, name in enumerate(["alice", "bob"])}


def test_a_swarm_file_says_the_same_when_it_is_read_back() -> None:
    keys = [SigningKey(bytes([number]) * 32).public.hex() for number in range(5)]
    roster = dict(zip(["1e5", "null", "2026-01-01", "0x1f", "alice"], keys, strict=True))
    start = datetime(2026, 2, 3, 4, 5, 6, 789_000, tzinfo=UTC)
    config = swarm_config("123", roster, swarm_id="0" * 63 + "1", start=start, grace="7s")
    assert config.swarms[0].epochs[0].roster == roster
    assert config.swarms[0].epochs[0].start == start
    assert parse_config(config_yaml(config)).digest == config.digest


def test_a_swarm_file_with_a_wrong_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected an Ed25519 public key"):
        swarm_config("orders", {"alice": "00" * 32}, swarm_id="ab" * 32, start=START)


def test_rules_split_after_and_horizon_stand_in_the_file() -> None:
    config = swarm_config(
        "orders", ROSTER, swarm_id="ab" * 32, start=START, horizon="2m", rules=["everyone", 1], split_after="7s"
    )
    (epoch,) = config.swarms[0].epochs
    assert (config.swarms[0].horizon_ms, epoch.split_after_ms, epoch.rules) == (120_000, 7_000, ("everyone", 1))
    assert parse_config(config_yaml(config)) == config


def test_a_swarm_file_without_them_has_the_defaults_of_one_that_does_not_say() -> None:
    config = swarm_config("orders", ROSTER, swarm_id="ab" * 32, start=START)
    short = {"swarms": [{"id": "ab" * 32, "name": "orders", "epochs": [{"start": START, "roster": ROSTER}]}]}
    assert parse_config(yaml.safe_dump(short)) == config


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"rules": [3]}, r"at `swarms\[0\].epochs\[0\].rules\[0\]`: expected majority, everyone or a number"),
        ({"split_after": "soon"}, r"at `swarms\[0\].epochs\[0\].split_after`: expected a duration"),
        ({"horizon": "0s"}, r"at `swarms\[0\].horizon`: expected"),
    ],
)
def test_a_wrong_value_is_told_with_its_path(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        swarm_config("orders", ROSTER, swarm_id="ab" * 32, start=START, **wrong)

"""The file of swarms as YAML text: what `state.config.parse_config` reads, written."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
import yaml

from state.config import GRACE_DEFAULT, HORIZON_DEFAULT, SPLIT_AFTER_DEFAULT, Config, Epoch, Swarm, parse_config


def swarm_config(
    name: str,
    roster: Mapping[str, str],
    *,
    swarm_id: str,
    start: datetime,
    grace: str = GRACE_DEFAULT,
    horizon: str = HORIZON_DEFAULT,
    rules: Iterable[str | int] = ("majority",),
    split_after: str = SPLIT_AFTER_DEFAULT,
) -> Config:
    """A configuration of one swarm, from its peers' keys in hex digits; raises ConfigError if anything is wrong."""
    epoch = Epoch(start=start, roster=dict(roster), rules=tuple(rules), split_after=split_after)
    swarm = Swarm(id=swarm_id, name=name, epochs=(epoch,), grace=grace, horizon=horizon)
    return parse_config(config_yaml(Config((swarm,))))


def config_yaml(config: Config) -> str:
    """The text of a configuration; what is read back from it is equal and has the same digest."""
    tree = msgspec.to_builtins(config, builtin_types=(datetime,))
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Writes times as people do, with their zone."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:  # noqa: ARG002
        """Indent the entries of a list below the name of the list."""
        return super().increase_indent(flow, False)


def _represent_time(dumper: _Dumper, time: datetime) -> yaml.ScalarNode:
    text = time.isoformat().replace("+00:00", "Z")
    return dumper.represent_scalar("tag:yaml.org,2002:timestamp", text)


_Dumper.add_representer(datetime, _represent_time)

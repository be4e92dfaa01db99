"""The configuration: what the same files say the same, and what a wrong one is told."""

import contextlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.swarmfile import config_yaml
from state.config import GRACE_DEFAULT, Config, ConfigError, parse_config, parse_duration_ms
from state.limits import ROSTER_MAX
from state.signing import SigningKey

KEYS = [SigningKey(bytes([number]) * 32).public.hex() for number in range(1, 6)]
SWARM, OTHER = "ab" * 32, "cd" * 32
START = "2026-01-01T00:00:00Z"

GOOD = f"""
swarms:
  - id: '{SWARM}'
    name: orders
    grace: 5s
    epochs:
      - start: {START}
        roster:
          alice: '{KEYS[0]}'
          bob: '{KEYS[1]}'
      - start: 2026-02-01T00:00:00Z
        roster:
          bob: '{KEYS[1]}'
          carol: '{KEYS[2]}'
"""


def config_of(*epochs: str, name: str = "orders", more: str = "") -> str:
    rows = "".join(f"      - {epoch}\n" for epoch in epochs)
    return f"swarms:\n  - id: '{SWARM}'\n    name: {name}\n{more}    epochs:\n{rows}"


def epoch(roster: str = f"{{alice: '{KEYS[0]}'}}", start: str = START) -> str:
    return f"{{start: {start}, roster: {roster}}}"


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    return str(caught.value)


def test_a_good_file_gives_swarms_epochs_and_all_authors() -> None:
    config = parse_config(GOOD)
    (swarm,) = config.swarms
    assert (swarm.name, swarm.key, swarm.grace_ms) == ("orders", bytes.fromhex(SWARM), 5000)
    assert [one.start_ms for one in swarm.epochs] == [1767225600000, 1769904000000]
    assert config.authors == {swarm.key: frozenset(map(bytes.fromhex, KEYS[:3]))}
    assert config.swarm("orders") is swarm
    assert config.swarm(SWARM) is swarm
    assert config.swarm("others") is None


def test_the_grace_has_a_default() -> None:
    (swarm,) = parse_config(config_of(epoch())).swarms
    assert swarm.grace == GRACE_DEFAULT
    assert swarm.grace_ms == 30_000


def test_a_peer_is_found_by_its_newest_key_and_a_key_by_its_hex_digits() -> None:
    text = config_of(epoch(f"{{alice: '{KEYS[0]}'}}"), epoch(f"{{alice: '{KEYS[1]}'}}", "2026-02-01T00:00:00Z"))
    (swarm,) = parse_config(text).swarms
    assert swarm.author("alice") == bytes.fromhex(KEYS[1])
    assert swarm.author(KEYS[0]) == bytes.fromhex(KEYS[0])
    assert swarm.author("nobody") is None
    assert swarm.author(KEYS[4]) is None


def test_a_key_has_its_newest_name() -> None:
    text = config_of(epoch(f"{{alice: '{KEYS[0]}'}}"), epoch(f"{{alicia: '{KEYS[0]}'}}", "2026-02-01T00:00:00Z"))
    (swarm,) = parse_config(text).swarms
    assert swarm.authors == {bytes.fromhex(KEYS[0]): "alicia"}


@given(st.permutations(range(5)))
def test_the_digest_does_not_depend_on_the_order_of_the_roster(order: list[int]) -> None:
    rosters = [{f"peer-{number}": KEYS[number] for number in numbers} for numbers in (range(5), order)]
    one, other = (parse_config(config_of(epoch(str(roster)))) for roster in rosters)
    assert one.digest == other.digest


@pytest.mark.parametrize(
    "same",
    [
        "# a comment\n" + GOOD,
        GOOD.replace("alice:", "alice:   "),
        GOOD.replace(START, "2026-01-01T02:00:00+02:00"),
        GOOD.replace(START, "'2026-01-01T02:00:00+02:00'"),
        GOOD.replace(START, "2026-01-01 00:00:00.000Z"),
        GOOD.replace("'", '"'),
        GOOD.replace("    name: orders\n    grace: 5s\n", "    grace: 5s\n    name: orders\n"),
        "---\n" + GOOD + "...\n",
    ],
)
def test_files_that_say_the_same_have_the_same_digest(same: str) -> None:
    assert same != GOOD
    assert parse_config(same).digest == parse_config(GOOD).digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("orders", "order"),
        ("5s", "6s"),
        (SWARM, OTHER),
        (START, "2026-01-01T00:00:01Z"),
        ("alice", "alicia"),
        (KEYS[2], KEYS[3]),
    ],
)
def test_files_that_say_something_else_have_another_digest(old: str, new: str) -> None:
    assert parse_config(GOOD.replace(old, new)).digest != parse_config(GOOD).digest


def test_a_configuration_given_as_values_has_the_digest_of_the_file() -> None:
    parsed = parse_config(GOOD)
    assert Config(parsed.swarms).digest == parsed.digest
    assert parsed.swarms[0].epochs[0].start == datetime(2026, 1, 1, tzinfo=UTC)


AT_START = "at `swarms[0].epochs[0].start`: expected a time with its zone, such as 2026-01-01T00:00:00Z, got "
AT_SECOND = "at `swarms[0].epochs[1].start`: expected a later start than that of the epoch before it, "
AT_ROSTER = "at `swarms[0].epochs[0].roster`: expected "
AT_ALICE = "at `swarms[0].epochs[0].roster.alice`: expected "

WRONG = {
    "an empty file": ("", "at the top level: expected `object`, got `null`"),
    "a list": ("[]", "at the top level: expected `object`, got `array`"),
    "no swarms": ("{}", "at the top level: expected a field `swarms`, got none"),
    "an empty list of swarms": ("swarms: []", "at `swarms`: expected at least one swarm, got none"),
    "swarms that are no list": ("swarms: 5", "at `swarms`: expected `array`, got `int`"),
    "a field that nobody knows": (GOOD + "color: blue\n", "at the top level: expected only known fields, got `color`"),
    "a wrong field of a swarm": (
        GOOD.replace("grace:", "gracious:"),
        "at `swarms[0]`: expected only known fields, got `gracious`",
    ),
    "a swarm without a name": (
        GOOD.replace("    name: orders\n", ""),
        "at `swarms[0]`: expected a field `name`, got none",
    ),
    "an id that is too short": (
        GOOD.replace(SWARM, "abcd"),
        "at `swarms[0].id`: expected 64 lower-case hex digits (see `quorumscope swarm new`), got 'abcd'",
    ),
    "an id in capitals": (
        GOOD.replace(SWARM, SWARM.upper()),
        f"at `swarms[0].id`: expected 64 lower-case hex digits (see `quorumscope swarm new`), got '{SWARM.upper()}'",
    ),
    "a name with a space": (
        GOOD.replace("orders", "my orders"),
        "at `swarms[0].name`: expected a name of letters, digits, '.', '_' and '-', got 'my orders'",
    ),
    "a number as a name": (GOOD.replace("orders", "5"), "at `swarms[0].name`: expected `str`, got `int`"),
    "a grace without a unit": (GOOD.replace("5s", "5"), "at `swarms[0].grace`: expected `str`, got `int`"),
    "a grace with a wrong unit": (
        GOOD.replace("5s", "5 years"),
        "at `swarms[0].grace`: expected a duration such as 500ms, 30s or 5m, got '5 years'",
    ),
    "no epochs": (
        f"swarms: [{{id: '{SWARM}', name: orders, epochs: []}}]",
        "at `swarms[0].epochs`: expected at least one epoch, got none",
    ),
    "a start without its zone": (
        GOOD.replace(START, "2026-01-01T00:00:00"),
        AT_START + "2026-01-01T00:00:00 without a zone",
    ),
    "a bare date": (GOOD.replace(START, "2026-01-01"), AT_START + "other text"),
    "a day that no calendar has": (GOOD.replace(START, "2026-02-30T00:00:00Z"), AT_START + "other text"),
    "a start in words": (GOOD.replace(START, "soon"), AT_START + "other text"),
    "a year as a start": (GOOD.replace(START, "2026"), AT_START + "`int`"),
    "a start before the year 1": (
        GOOD.replace(START, "0001-01-01T00:00:00+10:00"),
        "at `swarms[0].epochs[0]`: expected a time from year 1 to 9999 in UTC, got one beyond",
    ),
    "epochs out of order": (
        GOOD.replace("2026-02-01", "2025-02-01"),
        AT_SECOND + "got 2025-02-01T00:00:00+00:00",
    ),
    "two epochs at one time": (
        GOOD.replace("2026-02-01", "2026-01-01"),
        AT_SECOND + "got 2026-01-01T00:00:00+00:00",
    ),
    "an empty roster": (config_of(epoch("{}")), AT_ROSTER + f"1 to {ROSTER_MAX} peers, got 0"),
    "a roster that is a list": (config_of(epoch("[alice]")), AT_ROSTER + "`object`, got `array`"),
    "a number as a peer's name": (config_of(epoch(f"{{1: '{KEYS[0]}'}}")), AT_ROSTER + "`str`, got `int`"),
    "a name that YAML takes for a truth value": (
        config_of(epoch(f"{{no: '{KEYS[0]}'}}")),
        AT_ROSTER + "`str`, got `bool`",
    ),
    "a peer's name with a slash": (
        config_of(epoch(f"{{a/b: '{KEYS[0]}'}}")),
        AT_ROSTER + "names of letters, digits, '.', '_' and '-', got 'a/b'",
    ),
    "a key that is no key": (
        config_of(epoch("{alice: 'secret'}")),
        AT_ALICE + "a public key of 64 lower-case hex digits, got 'secret'",
    ),
    "a key of digits alone, without quotes": (
        config_of(epoch("{alice: " + 64 * "1" + "}")),
        "at `swarms[0].epochs[0].roster[...]`: expected `str`, got `int`",
    ),
    "a key of small order": (
        config_of(epoch("{alice: '01" + 62 * "0" + "'}")),
        AT_ALICE + "an Ed25519 public key, got a value that is none or of small order",
    ),
    "a key that is no point": (
        config_of(epoch("{alice: '02" + 62 * "0" + "'}")),
        AT_ALICE + "an Ed25519 public key, got a value that is none or of small order",
    ),
    "one key for two peers": (
        config_of(epoch(f"{{bob: '{KEYS[0]}', alice: '{KEYS[0]}'}}")),
        AT_ALICE + "a key of its own, got the key of bob",
    ),
    "a swarm given twice": (
        GOOD + GOOD.replace("\nswarms:\n", "").replace("orders", "others"),
        f"at `swarms[1].id`: expected each id once, got '{SWARM}' a second time",
    ),
    "a name given to two swarms": (
        GOOD + GOOD.replace("\nswarms:\n", "").replace(SWARM, OTHER),
        "at `swarms[1].name`: expected each name once, got 'orders' a second time",
    ),
}

NOT_YAML = {
    "a key given twice": (
        GOOD.replace("    grace: 5s\n", "    name: others\n"),
        "line 5: expected each key once, got 'name' a second time",
    ),
    "a peer given twice": (
        GOOD.replace("bob:", "alice:", 1),
        "line 10: expected each key once, got 'alice' a second time",
    ),
    "a list as a key": ("? [a]\n: b\n", "line 1: expected a plain key, got a list or a mapping"),
    "a tab": ("swarms:\n\t- id: 5\n", "found character '\\t' that cannot start any token"),
    "two documents": (GOOD + "---\n" + GOOD, "expected a single document in the stream"),
    "a merge of mappings": (
        GOOD.replace("name: orders", "<<: {name: orders}"),
        "could not determine a constructor for the tag 'tag:yaml.org,2002:merge'",
    ),
    "an alias to nothing": ("swarms: *nothing", "found undefined alias 'nothing'"),
    "a NUL": ("swarms: \0", "unacceptable character #x0000"),
    "a number too long for Python": ("swarms: " + 5000 * "1", "Exceeds the limit"),
    "a hexadecimal number without digits": ("swarms: 0x_", "invalid literal for int() with base 16"),
    "a truth value that is none": ("swarms: !!bool perhaps", "'perhaps'"),
    "an integer that is none": ("swarms: !!int ''", "string index out of range"),
    "lists in lists in lists": ("[" * 50_000, "its values are nested too deeply"),
    "mappings in mappings": ("{a: " * 50_000, "its values are nested too deeply"),
    "items in items": ("- " * 50_000, "its values are nested too deeply"),
}


@pytest.mark.parametrize("how", WRONG)
def test_a_wrong_value_is_told_with_its_path_what_was_expected_and_got(how: str) -> None:
    text, want = WRONG[how]
    got = complaint(text)
    assert got == want
    assert "\n" not in got


@pytest.mark.parametrize("how", NOT_YAML)
def test_a_file_that_cannot_be_read_is_told_in_one_sentence(how: str) -> None:
    text, want = NOT_YAML[how]
    got = complaint(text)
    assert got.startswith("the file is not YAML that can be read: ")
    assert want in got
    assert "\n" not in got


@pytest.mark.parametrize(
    "tag",
    [
        "!!python/object/apply:pathlib.Path.touch [{path}]",
        "!!python/object/apply:os.system ['touch {path}']",
        "!!python/name:os.system",
        "!!python/object/new:os.system ['touch {path}']",
        "!unknown 5",
    ],
)
def test_tags_that_would_run_code_are_refused_and_run_nothing(tag: str, tmp_path: Path) -> None:
    target = tmp_path / "touched"
    assert "could not determine a constructor for the tag" in complaint(f"swarms: {tag.format(path=target)}")
    assert not target.exists()


def bomb(opening: str, closing: str, inner: str) -> str:
    """Ten levels of ten aliases each: ten thousand million values, if anything unfolded them."""
    lines = [f"a0: &a0 {inner}"]
    for level in range(1, 11):
        aliases = ", ".join(opening.format(at=at) + f"*a{level - 1}" for at in range(10))
        lines.append(f"a{level}: &a{level} {closing[0]}{aliases}{closing[1]}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        bomb("", "[]", "[x, x]"),
        bomb("k{at}: ", "{}", "{x: x}"),
        bomb("", "[]", "[x, x]") + "\nswarms: *a10\n",
        "swarms: &s [*s, *s, *s]",
        "&top {swarms: [*top]}",
        "a: &a {b: *a}\nswarms: *a",
    ],
    ids=["lists", "mappings", "a used bomb", "a list of itself", "a mapping of itself", "a mapping in itself"],
)
def test_aliases_that_would_unfold_without_end_are_refused_at_once(text: str) -> None:
    assert ": expected " in complaint(text)


def test_merges_that_would_unfold_are_refused_at_once() -> None:
    lines = ["a0: &a0 {x: 1, y: 2}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 11)]
    assert "tag:yaml.org,2002:merge" in complaint("\n".join(lines))


def test_an_alias_is_as_good_as_what_it_names() -> None:
    text = GOOD.replace(f"alice: '{KEYS[0]}'", f"alice: &k '{KEYS[0]}'")
    text = text.replace(f"carol: '{KEYS[2]}'", "alice: *k")
    (swarm,) = parse_config(text).swarms
    assert swarm.authors == {bytes.fromhex(KEYS[0]): "alice", bytes.fromhex(KEYS[1]): "bob"}


@given(st.one_of(st.text(), st.text(alphabet="swarm:{}[]&*!?-#'\"|>\n 01x<,")))
def test_any_text_at_all_is_a_configuration_or_one_sentence(text: str) -> None:
    assert "\n" not in complaint(text)


@given(st.integers(0, len(GOOD) - 1), st.text(alphabet="swarm:{}[]&*!?-#'\"|>\n 01x<,", max_size=3))
def test_a_damaged_file_is_a_configuration_or_a_wrong_one_and_nothing_else(at: int, instead: str) -> None:
    text = GOOD[:at] + instead + GOOD[at + len(instead) + 1 :]
    with contextlib.suppress(ConfigError):
        parse_config(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("0s", 0), ("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("2h", 7_200_000)]
)
def test_a_duration_has_a_number_and_a_unit(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "5", "s", "-5s", "1.5s", " 5s", "5s\n", "5 s", "٥s", "9999999999s", "5S"])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration such as"):
        parse_duration_ms(text)


def test_the_largest_roster_is_accepted_and_one_more_is_not() -> None:
    rosters = [
        {f"peer-{number}": SigningKey(number.to_bytes(32)).public.hex() for number in range(size)}
        for size in (ROSTER_MAX, ROSTER_MAX + 1)
    ]
    largest, over = (config_of(epoch(str(roster))) for roster in rosters)
    assert len(parse_config(largest).swarms[0].authors) == ROSTER_MAX
    assert complaint(over) == AT_ROSTER + f"1 to {ROSTER_MAX} peers, got {ROSTER_MAX + 1}"


# What acceptance and splits are judged by


def rules_of(text: str, roster: int = 4) -> Config:
    names = ", ".join(f"p{number}: '{key}'" for number, key in enumerate(KEYS[:roster]))
    return parse_config(config_of(f"{{start: {START}, roster: {{{names}}}, rules: {text}}}"))


def test_rules_say_how_many_of_the_roster_and_how_many_liars_that_tolerates() -> None:
    (epoch,) = rules_of("[majority, everyone, 2]").swarms[0].epochs
    assert [tuple(rule) for rule in epoch.thresholds] == [("majority", 3, 4), ("everyone", 4, 4), ("2", 2, 4)]
    assert [rule.tolerates for rule in epoch.thresholds] == [1, 3, 0]
    assert epoch.rule("2") == ("2", 2, 4)
    assert epoch.rule("5") is None


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("[most]", "at `swarms[0].epochs[0].rules[0]`: expected majority, everyone or a number of peers from 1 to 4"),
        ("[majority, 5]", "at `swarms[0].epochs[0].rules[1]`: expected majority, everyone or a number of peers"),
        ("[0]", "from 1 to 4, got 0"),
        ("[2, 2]", "expected each rule once, got 2 a second time"),
        ("majority", "at `swarms[0].epochs[0].rules`: expected `array`"),
    ],
)
def test_a_wrong_rule_is_told_with_its_place(rules: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rules_of(rules)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("    horizon: soon\n", "at `swarms[0].horizon`: expected a duration such as 500ms, 30s or 5m, got 'soon'"),
        ("    horizon: 21d\n", "at `swarms[0].horizon`: expected 1ms to 20d, got 21d"),
        ("    horizon: 0s\n", "at `swarms[0].horizon`: expected 1ms to 20d, got 0s"),
        ("    horizon: 20s\n", "at `swarms[0].epochs[0].split_after`: expected 50ms or more, and not more than the"),
        ("    blocks: 65\n", "at `swarms[0].blocks`: expected 0 to 64, got 65"),
        ("    blocks: -1\n", "at `swarms[0].blocks`: expected 0 to 64, got -1"),
    ],
)
def test_a_wrong_horizon_or_number_of_blocks_is_told(more: str, words: str) -> None:
    assert words in complaint(config_of(epoch(), more=more))


@pytest.mark.parametrize("split_after", ["never", "49ms", "6m"])
def test_a_wrong_split_after_is_told(split_after: str) -> None:
    text = config_of(f"{{start: {START}, roster: {{alice: '{KEYS[0]}'}}, split_after: {split_after}}}")
    assert complaint(text).startswith("at `swarms[0].epochs[0].split_after`: expected ")


@pytest.mark.parametrize(
    ("clock", "words"),
    [
        ("{counters: 0}", "at `swarms[0].clock`: expected 1 to 65536 counters, got 0"),
        ("{counters: 65537}", "at `swarms[0].clock`: expected 1 to 65536 counters, got 65537"),
        ("{counters: 64, hashes: 0}", "at `swarms[0].clock`: expected 1 to 16 hashes, got 0"),
        ("{hashes: 17}", "at `swarms[0].clock`: expected 1 to 16 hashes, got 17"),
        ("{counters: many}", "at `swarms[0].clock.counters`: expected `int`, got `str`"),
        ("{size: 3}", "at `swarms[0].clock`: expected only known fields, got `size`"),
        ("1024", "at `swarms[0].clock`: expected `object`, got `int`"),
    ],
)
def test_a_wrong_size_of_the_clocks_is_told(clock: str, words: str) -> None:
    assert words in complaint(config_of(epoch(), more=f"    clock: {clock}\n"))


def test_the_size_of_the_clocks_has_a_default_and_each_part_of_it_too() -> None:
    def parameters(more: str) -> tuple[int, int]:
        return parse_config(config_of(epoch(), more=more)).swarms[0].clock_parameters

    assert parameters("") == parameters("    clock: {}\n") == (1024, 2)
    assert parameters("    clock: {counters: 64}\n") == (64, 2)
    assert parameters("    clock: {counters: 65536, hashes: 16}\n") == (65_536, 16)


def test_a_file_without_clocks_keeps_the_digest_from_before_there_were_any() -> None:
    digest = "dcfcebe67888cb39988ec7c0398a3e3a8d66d9a2dba4c6800b11af76d14d4b47"
    assert parse_config(GOOD).digest == digest
    sizes = ("{}", "{counters: 1024, hashes: 2}", "{counters: 1024, hashes: 3}", "{counters: 64}")
    digests = [parse_config(config_of(epoch(), more=f"    clock: {size}\n")).digest for size in sizes]
    assert digests[0] == digests[1] == parse_config(config_of(epoch())).digest
    assert len(set(digests)) == 3


def test_the_number_of_blocks_is_no_part_of_the_digest_and_all_else_is() -> None:
    digests = [
        parse_config(config_of(epoch(), more=more)).digest
        for more in ("", "    blocks: 4\n", "    horizon: 6m\n", "    grace: 6s\n")
    ]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_a_time_belongs_to_the_epoch_that_had_started_last() -> None:
    (swarm,) = parse_config(GOOD).swarms
    first, second = swarm.epochs
    assert swarm.epoch_at(first.start_ms - 1) is None
    assert swarm.epoch_at(first.start_ms) is first
    assert swarm.epoch_at(second.start_ms - 1) is first
    assert swarm.epoch_at(second.start_ms + 10**12) is second


def test_a_large_roster_is_divided_into_blocks_of_256() -> None:
    (swarm,) = parse_config(GOOD).swarms
    assert swarm.blocks_count == 1
    many = {f"p{number}": SigningKey(number.to_bytes(2) * 16).public.hex() for number in range(300)}
    text = config_of(f"{{start: {START}, roster: {{{', '.join(f'{n}: {k!r}' for n, k in many.items())}}}}}")
    assert parse_config(text).swarms[0].blocks_count == 2


def test_since_is_a_time_and_without_it_a_file_keeps_its_digest() -> None:
    without = parse_config(config_of(epoch()))
    assert without.swarms[0].since_ms is None
    texts = ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00+01:00", "'2026-01-01T01:00:00Z'"]
    same = [parse_config(config_of(epoch(), more=f"    since: {text}\n")) for text in texts]
    assert {config.swarms[0].since_ms for config in same} == {1_767_229_200_000}
    assert len({config.digest for config in same}) == 1
    assert same[0].digest != without.digest
    assert parse_config(config_yaml(same[0])).digest == same[0].digest


@pytest.mark.parametrize("since", ["2026-01-01", "2026-01-01T00:00:00", "yesterday", "12"])
def test_a_since_that_is_no_time_with_a_zone_is_told(since: str) -> None:
    told = complaint(config_of(epoch(), more=f"    since: {since}\n"))
    assert told.startswith("at `swarms[0].since`: expected a time with its zone, such as 2026-01-01T00:00:00Z")

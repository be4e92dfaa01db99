"""Verdicts that are made up: of every kind, about bob of swarm lab, with any text wherever a verdict can hold one."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from dashboards.web.markup import TEXT_LENGTH_MAX
from state.verdict import (
    BadIndex,
    BadUpdate,
    Belief,
    Believer,
    ClockSkew,
    Equivocation,
    Fork,
    Known,
    Limit,
    Missing,
    Named,
    OneWay,
    Quarantine,
    Replica,
    Signed,
    Silent,
    Split,
    Suspect,
    Undecidable,
    Verdict,
    key_of,
)
from tests.pagelab import NOW_MS, lab_author, lab_config

CONFIG = lab_config("ann", "bob", "cleo", "dora")
BOB = lab_author("bob")

HOSTILE = st.one_of(
    st.text(max_size=60),
    st.text("<>&\"'/=;` \0\n\u202escriptonload", max_size=60),
    st.sampled_from(["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "--><b>", "</td></table>", "]]>"]),
    st.text(min_size=TEXT_LENGTH_MAX + 1, max_size=TEXT_LENGTH_MAX + 3),
)


def verdict(kind: type[Verdict], key: str = "one", **fields: Any) -> Any:
    """A verdict about swarm lab; what is not given is something plain."""
    plain_fields: dict[str, Any] = {
        "author": BOB,
        **dict.fromkeys(("id", "branch", "fold", "fold_key", "error", "limit"), "00"),
        **dict.fromkeys(("index", "previous_index", "maximum", "k", "n", "tolerates", "times_ms"), 1),
        **dict.fromkeys(("ahead_ms", "behind_ms", "interval_ms", "split_after_ms"), 400_000),
        **dict.fromkeys(("since_ms", "opened_ms", "updated_ms", "published_ms", "epoch_ms"), NOW_MS - 60_000),
        **dict.fromkeys(("known_ms", "accepted_ms", "last_contact_ms"), NOW_MS - 50_000),
        **dict.fromkeys(("referrers", "believers", "suspects", "sides", "sides_opening"), ()),
        **dict.fromkeys(("branches", "evidence"), versions("aa", "bb")),
        "segment": versions("cc")[0],
        "previous": versions("dd")[0] if kind is BadIndex else "00",
        "direction": "hears",
        "disputed": False,
        "ended_ms": None,
        "observers": "7",
        "rule": "majority",
        **dict.fromkeys(("events", "lacks", "position"), 1),
        "extra": 0,
        **dict.fromkeys(("stated_ms", "seen_ms"), NOW_MS - 60_000),
        "entity": b"menu".hex(),
        "by_clock": False,
        "state": "behind",
        "claimed": "00",
        "expected": "01",
        "why": "stamp" if kind is BadUpdate else "",
    }
    if kind in (BadUpdate, Replica):
        plain_fields["segment"] = "cc" * 32
    known = {name: value for name, value in plain_fields.items() if name in kind.__struct_fields__}
    return kind(key=key, swarm=CONFIG.swarms[0].id, config="c", **(known | fields))


def replica(entity: str = "menu", state: str = "behind", why: str = "", **fields: Any) -> Any:
    """A verdict about bob's replica of an entity, or that of another `author`, under its key."""
    author, name = fields.pop("author", BOB), entity.encode().hex()
    key = key_of(Replica, CONFIG.swarms[0].id, author, name)
    return verdict(Replica, key, author=author, entity=name, state=state, why=why, **fields)


def versions(*ids: str) -> tuple[Signed, ...]:
    return tuple(Signed(id=one, head="h", signature="s", seen_ms=NOW_MS - 30_000) for one in ids)


def with_text(text: str) -> list[Verdict]:
    """Verdicts of all kinds that hold a text wherever they can."""
    signed = Signed(id=text, head=text, signature=text, seen_ms=NOW_MS)
    pair = (signed, msgspec.structs.replace(signed, id=f"{text}2"))
    kinds = [verdict(Split, f"split/{text}", sides=((text,), (BOB,)), suspects=(Suspect(author=text, why=text),))]
    for author in (BOB, text):
        about = {"author": author}
        kinds += [
            verdict(Fork, f"fork/{author}/{text}", previous=text, branches=pair, **about),
            verdict(Equivocation, f"equivocation/{author}/{text}", evidence=pair, **about),
            verdict(Missing, f"missing/{author}/{text}", id=text, referrers=(Named(text, 3, text),), **about),
            verdict(BadIndex, f"bad_index/{author}/{text}", segment=signed, previous=signed, **about),
            verdict(ClockSkew, f"clock_skew/{author}/{text}", **about),
            verdict(Limit, f"limit/{author}/{text}", limit=text, **about),
            verdict(Belief, f"belief/{author}/{text}", branch=text, believers=(Believer(text, NOW_MS),), **about),
            verdict(Silent, f"silent/{author}/{text}", **about),
            verdict(OneWay, f"one_way/{author}/{text}", direction=text, **about),
            verdict(BadUpdate, f"bad_update/{author}/{text}", entity=text, why=text, claimed=text, **about),
            replica(f"{text} "[:16], "diverged", why=text, **about),
            verdict(Known, f"known/{author}/{text}", rule=text, id=text, **about),
        ]
    return [
        *kinds,
        verdict(Quarantine, f"quarantine/{text}", fold=text, fold_key=text, error=text),
        verdict(Undecidable),
    ]

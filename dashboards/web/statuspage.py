"""The status page: how all swarms are, at a glance and then in detail. No script; the one style sheet is style.css."""

from dashboards.web.frame import fact, finding_title, link, page, runbook_link
from dashboards.web.markup import Content, Html, element, joined
from dashboards.web.problems import KINDS, Problem, Severity, find_problems, listed, summary, worst
from dashboards.web.snapshot import Snapshot
from dashboards.web.swarmsection import badge, swarm_section
from dashboards.web.tables import ROWS_MAX, table
from dashboards.web.timewords import ago, counted, lasting, moment
from state.words import describe

REFRESH_S = 5
"""How often the page is loaded anew if asked for: about as often as ticks come in a small swarm."""


def status_page(snapshot: Snapshot, *, refreshing: bool) -> bytes:
    """The whole page."""
    problems = find_problems(snapshot)
    severity = worst(problems)
    sentence = summary(problems)
    swarms = (
        swarm_section(snapshot, swarm, [one for one in problems if one.swarm == swarm.swarm.name])
        for swarm in snapshot.swarms
    )
    return page(
        sentence if severity is Severity.WELL else f"{severity.word}: {sentence}",
        _state(snapshot, problems, severity, sentence),
        _exporter(snapshot),
        swarms,
        here="/",
        footer=_footer(snapshot, refreshing=refreshing),
        refresh_s=REFRESH_S if refreshing else None,
    )


def _state(snapshot: Snapshot, problems: list[Problem], severity: Severity, sentence: str) -> Html:
    names = [swarm.swarm.name for swarm in snapshot.swarms]
    peers = sum(len(swarm.peers) for swarm in snapshot.swarms)
    watched = f"{counted(len(names), 'swarm')} with {counted(peers, 'peer')}"
    return element(
        "section",
        element("p", badge(severity), " ", watched, class_="kicker"),
        element("h1", sentence, id="state"),
        element("ul", map(_problem, problems), class_="problems") if problems else None,
        _contents(names) if names[1:] else None,
        class_=f"state {severity.name.lower()}",
        aria_labelledby="state",
    )


def _problem(problem: Problem) -> Html:
    since = None if problem.since_ms is None else element("small", " since ", moment(problem.since_ms))
    return element(
        "li",
        badge(problem.severity),
        " ",
        element("span", element("span", problem.sentence, class_="what"), since, class_="text"),
        " ",
        runbook_link(problem.runbook),
    )


def _contents(names: list[str]) -> Html:
    return element(
        "nav",
        element("ul", (element("li", link(f"#swarm-{name}", f"Swarm {name}")) for name in names)),
        aria_label="Swarms",
    )


def _exporter(snapshot: Snapshot) -> Html:
    health = snapshot.health
    lag = sum(health.lag_records.values())
    skipped = {"unreadable": snapshot.unreadable, "of other swarms or peers": snapshot.foreign}
    counts = [f"{sum(by_topic.values()):,} {what}" for what, by_topic in skipped.items() if sum(by_topic.values())]
    age_s = health.last_verdict_age_s
    return element(
        "section",
        element("h2", "Exporter ", badge(Severity.WELL if health.is_ready else Severity.WARNING), id="exporter"),
        element(
            "dl",
            fact("State", "ready" if health.is_ready else health.sentence()),
            fact("Newest verdict", "none yet" if age_s is None else ago(health.last_verdict_ms, health.now_ms)),
            fact("Not read yet", counted(lag, "record")),
            fact("Skipped", listed(counts) or "none"),
            class_="facts",
        ),
        _quarantines(snapshot),
        class_="card",
        aria_labelledby="exporter",
    )


def _quarantines(snapshot: Snapshot) -> Html | None:
    if not snapshot.quarantines:
        return None
    quarantines = sorted(snapshot.quarantines, key=lambda one: one.key)
    rows = [(one.fold, describe(one, snapshot.config)) for one in quarantines[:ROWS_MAX]]
    caption = "Keys of the monitor’s state that stand still because of a bug; their input is kept in the dead letters."
    return joined(
        finding_title("Quarantines", KINDS["quarantine"].runbook),
        table("Quarantines", caption, ("Fold", "What happened"), rows, count=len(quarantines)),
    )


def _footer(snapshot: Snapshot, *, refreshing: bool) -> Content:
    refresh = (
        joined(f"This page loads anew every {lasting(1000 * REFRESH_S)}. ", link("/", "Stop refreshing"))
        if refreshing
        else link(f"/?refresh={REFRESH_S}", f"Refresh every {REFRESH_S} s")
    )
    return joined(
        element("p", refresh),
        element(
            "p",
            "As of ",
            moment(snapshot.health.now_ms),
            ", by the configuration ",
            element("code", snapshot.config.digest[:12]),
            ".",
        ),
    )

"""The command line. It alone knows all packages: what peers use, what Spark runs, what people see.

Exit codes: 0 done, 1 a finding or a failed check, 2 bad usage or configuration, 3 something is missing or unreachable.
"""

import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from dashboards.site import Address, SiteError
from producers.canary import SETS as CANARY_SETS
from producers.canary import canary_swarm, tell_lie
from producers.scenarios import SCENARIOS
from producers.simulation import Record, Simulation
from producers.sinks import SinkError, publish_fast, publish_live, swarms_path, truth_path, write_file, write_truth
from producers.swarm import Settings as SwarmSettings
from producers.swarmfile import config_yaml, swarm_config
from state.config import (
    GRACE_DEFAULT,
    HORIZON_DEFAULT,
    SPLIT_AFTER_DEFAULT,
    Config,
    ConfigError,
    Swarm,
    parse_duration_ms,
)
from state.connection import Connection
from state.fold import Topic
from state.signedfile import ProofError
from streaming.aclcommand import acls
from streaming.bar import OnProgress
from streaming.bounds import time_text
from streaming.canarycommand import Told, canary_command
from streaming.checkpoint import CheckpointError
from streaming.fsckcommand import fsck
from streaming.guard import BrokerError
from streaming.options import (
    Bootstrap,
    KafkaFile,
    Prefix,
    Swarms,
    config_of,
    connection_of,
    duration_ms,
    query_names,
    spark_setting,
)
from streaming.parts import MissingPartError
from streaming.pipeline import Pipeline
from streaming.proofcommands import evidence, explain, prove, verify
from streaming.replaycommand import replay_command
from streaming.statuscommand import status
from streaming.terminal import say, stopped_by_signal
from streaming.topics import PREFIX_DEFAULT

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
swarm_app = typer.Typer(no_args_is_help=True, help="Make and look at the file of swarms.")
app.add_typer(swarm_app, name="swarm")

DONE, FINDING, USAGE, MISSING = 0, 1, 2, 3


def main() -> None:
    """Run a command; errors of users are one sentence, never a traceback."""
    with exit_codes():
        app()


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turn what can go wrong into a sentence on standard error and an exit code."""
    from streaming.failure import JobError

    try:
        yield
    except (ConfigError, CheckpointError) as error:
        _end(error, USAGE)
    except (MissingPartError, BrokerError, SinkError, SiteError) as error:
        _end(error, MISSING)
    except (JobError, ProofError) as error:
        _end(error, FINDING)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        sys.exit(128 + signal.SIGPIPE)


def _end(error: Exception, code: int) -> None:
    print(f"quorumscope: {error}", file=sys.stderr)
    sys.exit(code)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@app.command()
def run(
    swarms: Swarms,
    checkpoint: Annotated[Path, typer.Option(help="Directory for the job's state; the same one goes on from there.")],
    bootstrap: Bootstrap = None,
    kafka: KafkaFile = None,
    prefix: Prefix = PREFIX_DEFAULT,
    master: Annotated[str, typer.Option(help="Spark master.")] = "local[*]",
    shuffle_partitions: Annotated[int | None, typer.Option(min=1, help="Fixed when the checkpoint is made.")] = None,
    offsets_max: Annotated[int, typer.Option(min=1, help="Records that a batch reads at most.")] = 100_000,
    trigger: Annotated[str, typer.Option(help="Time between batches, such as '1 second'.")] = "1 second",
    available_now: Annotated[bool, typer.Option("--available-now", help="End when all is read.")] = False,
    patience: Annotated[str, typer.Option(help="How long Kafka may be silent before the job ends.")] = "60s",
    queries: Annotated[str, typer.Option(help="Which queries run here, separated by commas.")] = "segments,matrix",
    listen: Annotated[
        str | None, typer.Option(help="HOST:PORT to serve metrics and health of the job at; else none are served.")
    ] = None,
    state_uri: Annotated[
        str,
        typer.Option(help="Keep offsets and state there, where Spark reaches it, not in the directory."),
    ] = "",
    spark: Annotated[list[str] | None, typer.Option("--conf", help="Spark setting, NAME=VALUE.")] = None,
) -> None:
    """Watch swarms: verify what peers publish, and write verdicts."""
    from streaming.failure import explained
    from streaming.job import Settings, run_job

    settings = Settings(
        config=config_of(swarms),
        connection=connection_of(bootstrap, kafka),
        checkpoint=checkpoint,
        prefix=prefix,
        master=master,
        shuffle_partitions=shuffle_partitions,
        offsets_max=offsets_max,
        trigger=trigger,
        available_now=available_now,
        patience_ms=duration_ms(patience, "--patience"),
        queries=query_names(queries),
        spark=dict(spark_setting(text) for text in spark or ()),
        state_uri=state_uri,
    )
    pipeline = Pipeline(settings.queries)
    with stopped_by_signal() as stopped, ExitStack() as stack:
        if listen is not None:
            address = stack.enter_context(_serving_job(pipeline, _address(listen)))
            say(f"serving {address.url}/metrics")
        with explained(settings):
            run_job(settings, pipeline, say, stopped.is_set)


def _address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise ConfigError(f"--listen: expected HOST:PORT, such as 127.0.0.1:9464, got {text!r}")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def _serving_job(pipeline: Pipeline, address: Address) -> AbstractContextManager[Address]:
    """Serve the metrics of a job and whether it is ready, which follows its progress."""
    from dashboards.exposition import SampleCollector, make_registry
    from dashboards.probes import Readiness, probes
    from dashboards.site import not_found, serving
    from streaming.pipeline import PIPELINE_METRICS

    def readiness() -> Readiness:
        stalled = pipeline.stalled(time.time())
        return Readiness(not stalled, pipeline.sentence(time.time()), {"stalled_seconds": stalled})

    registry = make_registry(SampleCollector(PIPELINE_METRICS, pipeline.samples))
    return serving(address, lambda _: probes(registry, readiness, lambda _: not_found()))


@app.command()
def exporter(
    swarms: Swarms,
    bootstrap: Bootstrap = None,
    kafka: KafkaFile = None,
    prefix: Prefix = PREFIX_DEFAULT,
    listen: Annotated[str, typer.Option(help="HOST:PORT to serve metrics and pages at.")] = "127.0.0.1:9464",
    url: Annotated[
        str | None, typer.Option(help="Where people reach it, for links; else what it listens on.", metavar="URL")
    ] = None,
    pair_peers_max: Annotated[
        int, typer.Option(min=0, help="Rosters up to this size have a series for each pair of peers.")
    ] = 32,
    worst_pairs: Annotated[int, typer.Option(min=0, help="Pairs of a larger roster that have one.")] = 100,
    series_budget: Annotated[int, typer.Option(min=1000, help="Series of a scrape at most.")] = 50_000,
) -> None:
    """Serve what the verdicts say: metrics for Prometheus, and a status page."""
    from importlib.metadata import version

    from dashboards.exporter import ExporterSettings, run_exporter, tail_records
    from dashboards.samples import Scope
    from streaming.follow import Follower

    config, connection = config_of(swarms), connection_of(bootstrap, kafka)
    scope = Scope(pair_peers_max, worst_pairs)
    settings = ExporterSettings(_address(listen), version("quorumscope"), url, scope, series_budget)
    with (
        stopped_by_signal() as stopped,
        closing(Follower(connection, f"{prefix}.{Topic.VERDICTS}")) as verdicts,
        closing(Follower(connection, f"{prefix}.{Topic.MATRIX}", tail_records(config))) as matrix,
    ):
        feeds = {Topic.VERDICTS: verdicts, Topic.MATRIX: matrix}
        run_exporter(config, feeds, settings, say, stopped.is_set)


@app.command()
def simulate(
    scenario: Annotated[str, typer.Argument(help=f"One of: {', '.join(SCENARIOS)}.")],
    bootstrap: Bootstrap = None,
    kafka: KafkaFile = None,
    prefix: Prefix = PREFIX_DEFAULT,
    file: Annotated[Path | None, typer.Option(help="Write to this file instead of Kafka.")] = None,
    out: Annotated[Path, typer.Option(help="Where ground truth and swarms file of a run to Kafka go.")] = Path(),
    fast: Annotated[
        bool, typer.Option("--fast", help="As fast as possible, with virtual record times (CreateTime topics).")
    ] = False,
    speed: Annotated[float, typer.Option(min=0.01, help="Times as fast as real time.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 1,
    peers: Annotated[int, typer.Option(help="Peers of the swarm.")] = 8,
    duration: Annotated[str, typer.Option(help="Virtual time, such as 60s or 5m.")] = "60s",
    interval: Annotated[str, typer.Option(help="Between two segments of a peer.")] = "1s",
    ops: Annotated[int, typer.Option(help="Ops of a segment, about.")] = 5,
) -> None:
    """Simulate a swarm, with liars if the scenario has some, and write down the truth about it."""
    known = SCENARIOS.get(scenario)
    if known is None:
        raise ConfigError(f"there is no scenario {scenario!r}: choose one of {', '.join(SCENARIOS)}")
    live = file is None and not fast
    try:
        settings = SwarmSettings(
            seed=seed,
            peers=peers,
            duration_ms=parse_duration_ms(duration),
            interval_ms=parse_duration_ms(interval),
            ops=ops,
            start_ms=_now_ms() if live else SwarmSettings().start_ms,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from None
    simulation = known.run(settings)
    if file is not None:
        write_file(simulation, file)
        say(f"{len(simulation.records):,} records to {file}, the truth to {truth_path(file)}")
        return
    connection, topic = connection_of(bootstrap, kafka), f"{prefix}.{Topic.SEGMENTS}"
    base = out / f"{scenario}-{seed}"
    write_truth(simulation, base)
    say(f"swarm and ground truth: {swarms_path(base)}, {truth_path(base)}")
    with stopped_by_signal() as stopped:
        count = _publish(simulation, connection, topic, fast=fast, speed=speed, stop=stopped.is_set)
    say(f"{count:,} of {len(simulation.records):,} records to {topic}")


def _publish(
    simulation: Simulation,
    connection: Connection,
    topic: str,
    *,
    fast: bool,
    speed: float,
    stop: Callable[[], bool],
) -> int:
    from streaming.topics import time_type

    if fast:
        if time_type(connection, topic) != "CreateTime":
            raise ConfigError(f"{topic} keeps its own times: make it with `quorumscope topics --create --create-time`")
        return publish_fast(simulation.records, connection.librdkafka(), topic)
    start_ms = simulation.records[0].time_ms
    lines = iter(simulation.truth.story)
    due = [next(lines, None)]

    def tell(record: Record) -> None:
        while due[0] is not None and record.time_ms >= due[0].time_ms:
            say(f"+{(due[0].time_ms - start_ms) / 1000:.0f} s: {due[0].text}")
            due[0] = next(lines, None)

    return publish_live(simulation.records, connection.librdkafka(), topic, speed=speed, stop=stop, on_record=tell)


@app.command()
def topics(
    bootstrap: Bootstrap = None,
    kafka: KafkaFile = None,
    prefix: Prefix = PREFIX_DEFAULT,
    create: Annotated[bool, typer.Option("--create", help="Make the topics that do not exist.")] = False,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of the segments topic.")] = 4,
    replication: Annotated[int, typer.Option(help="Copies; -1 is what the broker is set to.")] = -1,
    retention: Annotated[str, typer.Option(help="How long segments are kept.")] = "7d",
    create_time: Annotated[
        bool, typer.Option("--create-time", help="Record times are the writer's: simulations and imports only.")
    ] = False,
) -> None:
    """Make the topics, or check how they are set up."""
    from streaming.topics import Setup, check_topics, create_topics

    connection = connection_of(bootstrap, kafka)
    setup = Setup(prefix, partitions, replication, duration_ms(retention, "--retention"), create_time)
    if create:
        made = create_topics(connection, setup)
        say(f"made {', '.join(made)}" if made else "all topics exist")
    problems = check_topics(connection, setup)
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(FINDING)
    say(f"the topics of {prefix} are set up as they should be")


@swarm_app.command("new")
def swarm_new(
    name: Annotated[str, typer.Argument(help="A name for the swarm.")],
    peer: Annotated[list[str], typer.Option("--peer", help="NAME=KEY: a peer and its public key in hex digits.")],
    grace: Annotated[str, typer.Option(help="How long a missing segment may take.")] = GRACE_DEFAULT,
    horizon: Annotated[str, typer.Option(help="How long a noop is looked at.")] = HORIZON_DEFAULT,
    split_after: Annotated[
        str, typer.Option(help="How old a noop may be that others do not have; three intervals or more.")
    ] = SPLIT_AFTER_DEFAULT,
    rule: Annotated[
        list[str] | None, typer.Option("--rule", help="majority, everyone or a number of peers; can be repeated.")
    ] = None,
) -> None:
    """Print a file of swarms with one new swarm, from its peers' keys."""
    roster = {}
    for entry in peer:
        peer_name, equals, key = entry.partition("=")
        if not equals or peer_name in roster:
            raise ConfigError(f"--peer: expected NAME=KEY, each name once, got {entry!r}")
        roster[peer_name] = key
    start = datetime.now(UTC).replace(microsecond=0)
    rules = tuple(int(text) if text.isdecimal() else text for text in rule or ("majority",))
    config = swarm_config(
        name,
        roster,
        swarm_id=secrets.token_hex(32),
        start=start,
        grace=grace,
        horizon=horizon,
        rules=rules,
        split_after=split_after,
    )
    print(config_yaml(config), end="")


@swarm_app.command("check")
def swarm_check(swarms: Annotated[Path, typer.Argument(help="The file of swarms.")]) -> None:
    """Check a file of swarms."""
    config = config_of(swarms)
    for swarm in config.swarms:
        times = f"grace {swarm.grace}, horizon {swarm.horizon}"
        print(f"{swarm.name}: {len(swarm.epochs)} epochs, {times}, {swarm.blocks_count} blocks of columns")
        for epoch in swarm.epochs:
            rules = ", ".join(
                f"{rule.name} ({rule.k} of {rule.n}, tolerates {rule.tolerates} liars)" for rule in epoch.thresholds
            )
            print(f"  from {epoch.start:%Y-%m-%dT%H:%M:%SZ}: {len(epoch.roster)} peers, {rules or 'no rules'}")
            print(f"    split after {epoch.split_after}")
    print(f"config {config.digest}")


@swarm_app.command("canary")
def swarm_canary(
    keys: Annotated[int, typer.Option(min=1, max=CANARY_SETS, help="Which set of test keys.")] = 1,
) -> None:
    """Print the swarm of canaries, to be added to the list in a file of swarms."""
    print(config_yaml(Config((canary_swarm(keys),))).partition("\n")[2], end="")


def _is_canary(swarm: Swarm) -> bool:
    return swarm.id in {canary_swarm(number).id for number in range(1, CANARY_SETS + 1)}


def _tell_lie(
    swarm: Swarm, branches: Mapping[str, int], time_ms: int, connection: Connection, topic: str
) -> Told | None:
    lie = tell_lie(swarm, branches, time_ms)
    if lie is None:
        return None
    publish_fast(lie.records, connection.librdkafka(), topic)
    return Told(lie.peer, lie.author, lie.ids)


def _write_metrics(
    config: Config, verdicts: Mapping[str, bytes], reports: Iterable[bytes], path: Path, step_ms: int, tell: OnProgress
) -> str:
    from dashboards.backfill import Past, write_backfill

    written = write_backfill(config, Past(verdicts, reports), path, step_ms, tell)
    if written is None:
        return f"no metrics: nothing that was found has a time, so {path} is not written"
    times = f"{time_text(written.first_ms)} to {time_text(written.last_ms)}"
    return (
        f"{written.samples:,} samples of {written.steps:,} steps, {times}, to {path}; for Prometheus: "
        f"promtool tsdb create-blocks-from openmetrics {path} BLOCKS"
    )


CANARY = canary_command(_is_canary, _tell_lie)
for command in (acls, status, fsck, replay_command(_write_metrics), CANARY, evidence, prove, verify, explain):
    app.command()(command)


@app.command()
def demo(
    forever: Annotated[bool, typer.Option("--forever", help="Begin again with a new swarm until Ctrl-C.")] = False,
    out: Annotated[Path, typer.Option(help="Where the demo leaves its files.")] = Path("demo-output"),
    seed: Annotated[int, typer.Option(help="Another seed, another swarm.")] = 1,
    with_prometheus: Annotated[
        bool | None,
        typer.Option(
            "--with-prometheus/--without-prometheus",
            help="Start Prometheus and Alertmanager too; if not said, where they are installed.",
        ),
    ] = None,
    with_grafana: Annotated[
        bool | None,
        typer.Option("--with-grafana/--without-grafana", help="Start Grafana too; if not said, where it is installed."),
    ] = None,
) -> None:
    """Everything on one machine: a broker, Spark, a swarm that is honest, lied to, split and healed, and the proofs."""
    import dashboards
    from streaming.demo import Story, run_demo
    from streaming.ending import TrueSplit, Truth
    from streaming.showcase import Wishes

    if with_grafana and with_prometheus is False:
        raise ConfigError("--with-grafana: Grafana shows what Prometheus keeps, so leave --without-prometheus out")

    def tell(round_seed: int, start_ms: int) -> Story:
        simulation = SCENARIOS["whole-story"].run(SwarmSettings(seed=round_seed, start_ms=start_ms))
        truth = simulation.truth

        def publish(connection: Connection, topic: str, on_record: Callable[[], None], stop: Callable[[], bool]) -> int:
            kafka = connection.librdkafka()
            return publish_live(simulation.records, kafka, topic, stop=stop, on_record=lambda _: on_record())

        splits = [TrueSplit(frozenset(map(frozenset, one.sides)), frozenset(one.suspects)) for one in truth.splits]
        return Story(
            simulation.config,
            config_yaml(simulation.config),
            [(line.time_ms - start_ms, line.text) for line in truth.story],
            Truth(frozenset(fork.author for fork in truth.forks), tuple(splits)),
            len(simulation.records),
            publish,
        )

    @contextmanager
    def serve(pipeline: Pipeline) -> Iterator[str]:
        with _serving_job(pipeline, Address("127.0.0.1", 0)) as address:
            yield f"{address.host}:{address.port}"

    wishes = Wishes(serve, Path(dashboards.__file__).parent, with_prometheus, with_grafana)
    with stopped_by_signal() as stopped:
        good = run_demo(tell, out, seed, wishes, forever=forever, stop=stopped.is_set)
    if stopped.is_set() and not forever:
        sys.exit(128 + signal.SIGINT)
    sys.exit(DONE if good else FINDING)


if __name__ == "__main__":
    main()

"""A Spark that starts light, keeps quiet and leaves nothing in the user's folder."""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dissectors.errors import BrokerscopeError, UsageError
from pipelines.pandas_guard import hidden, is_without_pandas
from pipelines.spark import class_archive, connect, credentials, java
from pipelines.spark.application import MASTER, Application, is_local, running
from pipelines.storage import scratch

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
LOGGING = Path(__file__).with_name("log4j2.properties")

# Its code cache is 48 MiB by default: the queries of all tables fill that, and then the rest is interpreted.
QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # what pyarrow, pandas and duckdb read back unchanged
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.unix.domain.socket.enabled": "true",  # 10 to 20 % more through the Python boundary
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",  # small tables: few tasks
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    "spark.sql.sources.fileCompressionFactor": "50",  # of record files; by their own size, too large ones are broadcast
    "spark.sql.python.filterPushdown.enabled": "true",  # `where` reaches format("brokerscope")
    "spark.driver.memory": "2g",
}
"""Ours, where the user has set nothing else."""
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_SMALL_JAVA = f"{QUICK_COMPILER} -XX:+UseSerialGC"
_OF_CLUSTERS = {_JAVA_OPTIONS: _SMALL_JAVA}  # where the driver plans and does little else
_STOPPED = "stopped SparkContext"
_ENDED = "Java ended by"
NO_ANSWER = (ConnectionRefusedError, ConnectionResetError, EOFError)
"""What Spark's Python raises where Java has ended, beside its own errors."""
_LAST_MOMENT = 2.0  # seconds between the end of Java's connections and its own
_CAUSES = (
    (
        r"failed to map segment|annot allocate memory|\bMemoryError\b|std::bad_alloc|malloc of size",
        "a Python worker ran out of memory: --conf spark.executor.pyspark.memory gives it more",
    ),
    (
        r"Container killed|exit code:? 137|exited with code 137|Python worker (exited unexpectedly|crashed)",
        "a worker was killed, as where its machine has no memory left: --conf spark.executor.memoryOverhead asks for "
        "more, spark.executor.cores=1 has one task less beside it",
    ),
    (
        r"OutOfMemoryError|GC overhead limit",
        "Java ran out of memory: --conf spark.driver.memory or spark.executor.memory gives it more",
    ),
    (r"No space left on device", "a disk is full: --conf spark.local.dir names another for what Spark shuffles"),
    (r"Cannot run program", "the workers' Python does not start: --conf spark.pyspark.python names it"),
    (
        r"Master removed our application|Application has been killed|All masters are unresponsive",
        "the cluster gave up: executors do not start, which --conf spark.executor.memory, spark.executor.cores or a "
        "path may cause; their stderr on the workers says why",
    ),
    (
        _ENDED,
        "Spark's Java process has ended, as where the machine has no memory left: --conf spark.driver.memory asks for "
        "less, --engine local needs none",
    ),
    (_STOPPED, "Spark stopped while it worked: what the master and the executors logged says why"),
)
"""A text of Spark, Python or the system -> what it means, and the setting to change. The first that fits counts."""
_LONGEST = 300  # characters of Spark's own text in a line
_LOG_TAIL = 65536
_log: Path | None = None  # what Java wrote to its stderr
_PYTHON = "spark.pyspark.python"


def start(master: str | None = None, *, light: bool = False, conf: Mapping[str, str] | None = None) -> SparkSession:
    """The running session, else a new one. Arguments and errors are those of `begin`."""
    return begin(master, light=light, conf=conf).session


def begin(master: str | None = None, *, light: bool = False, conf: Mapping[str, str] | None = None) -> Application:
    """The running application, else a new one, whose session is made when it is first asked for.

    master: any Spark master, or sc://… for Spark Connect; by default what spark-submit or spark-defaults.conf say, else
    local[*]. light: the work is small, so Java stays with its quick compiler, which halves the time of a short local
    run. conf: settings that the user asks for; those of a running session stay as they are otherwise. Raises UsageError
    for a setting that cannot be changed any more, and BrokerscopeError where a Connect server cannot be reached.
    """
    conf = dict(conf or {})
    remote = _remote(master)
    if remote is not None:
        connected = _changed(Application.of(_connected(remote)), conf)
        credentials.use(connected.settings)
        return connected
    given = known(master, conf)
    credentials.use(given)
    there = running()
    if there is not None:
        return _changed(there, conf)
    from pyspark import SparkConf, SparkContext

    if is_without_pandas():
        with hidden(), contextlib.suppress(ImportError):
            import_module("pyspark.testing.utils")  # which PySpark imports with the first value that it gives to Java
    submitted = is_submitted()
    master = master or given.get(MASTER, LOCAL)
    if _PYTHON in given:  # only Spark's own scripts heed it
        os.environ["PYSPARK_PYTHON"] = given[_PYTHON]
    _choose_python()
    room = scratch.until_exit()
    ours = SETTINGS | _scratch(str(room)) | (_local(light) if is_local(master) else _OF_CLUSTERS)
    wanted = {key: value for key, value in ours.items() if key not in given} | conf
    logging = f"-Dlog4j2.configurationFile={LOGGING.as_uri()} -Dderby.system.home={tempfile.gettempdir()}"
    wanted[_JAVA_OPTIONS] = " ".join(filter(None, (ours.get(_JAVA_OPTIONS), logging, given.get(_JAVA_OPTIONS))))
    if not submitted:
        _start_java(wanted | {MASTER: master}, room / "spark.log")
    settings = SparkConf().setAll([*wanted.items()]).setMaster(master).setAppName("brokerscope")
    context = SparkContext.getOrCreate(settings)
    _quieten(context)
    return Application(context)


def _quieten(context: SparkContext) -> None:
    """Let the thread that adds up counters of tasks end without a traceback where Java ends first."""
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, address: None


class _WithoutFork(dict[str, Any]):
    """Options of Popen, less what would run in the new process before Java does: that takes a fork, in which locks stay
    shut that threads of other libraries hold, hdfs-native's for example."""

    def __setitem__(self, name: str, value: Any) -> None:
        if name != "preexec_fn":
            super().__setitem__(name, value)


def _start_java(settings: Mapping[str, str], log: Path) -> None:
    """Start the Java process that sessions of this process will use, unless there is one.

    log: gets its stderr, for JVMs chat there about their own flags.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    found = java.find()
    os.environ["JAVA_HOME"] = str(found.home)
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(settings.items()))
    conf.set(_JAVA_OPTIONS, " ".join(filter(None, (class_archive.options(found), settings.get(_JAVA_OPTIONS)))))
    global _log
    _log = log
    with log.open("ab") as errors:
        # a process group of its own: Ctrl-C is for this process, which ends the other
        options = _WithoutFork(stderr=errors, process_group=0)
        try:
            gateway = launch_gateway(conf, options)  # type: ignore[no-untyped-call]
        except BaseException as error:  # a signal: Java that comes up after this process has gone would never end
            for frame, _ in traceback.walk_tb(error.__traceback__):
                process = frame.f_locals.get("proc")
                if isinstance(process, subprocess.Popen):
                    os.killpg(process.pid, signal.SIGKILL)
            raise
    SparkContext._ensure_initialized(gateway=gateway)


def _java() -> subprocess.Popen[bytes] | None:
    """Spark's Java process, if this process started one."""
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None)


def give_up() -> None:
    """Wait for Spark no more: Java ends, if this process started it, and a Connect server is not called again."""
    connect.give_up()
    process = _java()
    if process is not None:
        process.terminate()


def _ended_java() -> str | None:
    """How Spark's Java process ended, if this process started one and it has."""
    process = _java()
    if process is None:
        return None
    try:
        code = process.wait(_LAST_MOMENT)
    except subprocess.TimeoutExpired:
        return None
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def known(master: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    """What is known of a session's settings before it starts. conf: settings that the user asks for."""
    if _remote(master) is not None:
        return dict(conf)
    there = running()
    if there is not None:
        return {**there.settings, **conf}
    return {**(_submitted() if is_submitted() else _defaults()), **conf}


def threads(master: str | None, settings: Mapping[str, str]) -> int | None:
    """Tasks at once of a session that is about to start on this machine; None of any other. settings: what is known."""
    about_to_start = _remote(master) is None and not is_submitted() and running() is None
    return _local_threads(master, settings) if about_to_start else None


def _local_threads(master: str | None, settings: Mapping[str, str]) -> int | None:
    """Tasks at once of a session on this machine; None of any other."""
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:,.*)?\])?", master or settings.get(MASTER, LOCAL))
    if found is None:
        return None
    if found[1] != "*":
        return int(found[1] or 1)
    from dissectors.local_decoder import cores

    return cores()


def cores(master: str | None, settings: Mapping[str, str]) -> int:
    """Tasks at once of a session that may never start. settings: what is known.

    Raises UsageError where they do not say how many cores it has.
    """
    here = _local_threads(master, settings)
    if here is not None:
        return here
    executors = settings.get("spark.executor.instances") or settings.get("spark.dynamicAllocation.maxExecutors")
    texts = (
        [settings.get("spark.cores.max")]
        if executors is None
        else [executors, settings.get("spark.executor.cores", "1")]
    )
    if not all(text is not None and re.fullmatch("[1-9][0-9]{0,6}", text) for text in texts):
        raise UsageError(
            "how many cores there will be is not known: --conf spark.cores.max=N, or spark.executor.instances=N and "
            "spark.executor.cores=N"
        )
    return math.prod(int(text) for text in texts if text is not None)


def _remote(master: str | None) -> str | None:
    """Where a session of Spark Connect is to be had, if it is one of these."""
    remote = os.environ.get("SPARK_REMOTE") if master is None else master
    return remote if remote is not None and (master is None or remote.startswith("sc://")) else None


def is_submitted() -> bool:
    """Whether spark-submit has started the Java process already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _connected(remote: str) -> SparkSession:
    """A session of Spark Connect; `local` starts a server in this process."""
    from pyspark.errors import PySparkImportError
    from pyspark.sql import SparkSession

    if not remote.startswith("sc://"):
        _choose_python()
        with _without("SPARK_REMOTE"):  # the process that becomes the server must not look for another
            _start_java({MASTER: remote}, scratch.until_exit() / "spark.log")
    try:
        session = SparkSession.builder.remote(remote).getOrCreate()
    except PySparkImportError as error:
        raise BrokerscopeError(
            f"{remote}: Spark Connect needs packages that are not here: pip install 'pyspark[connect]', or name "
            "another --master"
        ) from error
    connect.check(session, remote)
    return session


@contextlib.contextmanager
def _without(variable: str) -> Iterator[None]:
    """The environment lacks a variable for a while."""
    value = os.environ.pop(variable, None)
    try:
        yield
    finally:
        if value is not None:
            os.environ[variable] = value


def _choose_python() -> None:
    """Tasks run in this Python unless the user has named another."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def gist(error: Exception) -> str:
    """What went wrong, in a line, and the setting that may help.

    That is the line of a cause that is known, wherever Spark's text holds it, else the last that names an error. A
    context that Spark has stopped, or Java that has ended, says nothing of why: that may stand in Java's log.
    """
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

    text = str(error)
    ended = _ended_java() if isinstance(error, (Py4JNetworkError, *NO_ANSWER)) else None
    if ended is not None:
        text = f"{_ENDED} {ended}"
    if (_STOPPED in text or ended is not None) and _log is not None and _log.exists():
        text += "\n" + _log.read_text(encoding="utf-8", errors="replace")[-_LOG_TAIL:]
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    for pattern, advice in _CAUSES:
        cause = next((line for line in lines if re.search(pattern, line)), None)
        if cause is not None:
            return f"{advice} ({cause.lstrip(': ')[-_LONGEST:]})"
    errors = [line for line in lines if re.match(r"[:\s]*[\w.]*(Error|Exception)\b", line)]
    return (errors or lines or [type(error).__name__])[-1].lstrip(": ")[:_LONGEST]


def _changed(there: Application, conf: Mapping[str, str]) -> Application:
    """A running application with settings that the user asks for. Raises UsageError for one that cannot be changed."""
    before = there.settings if conf else {}
    for key, value in conf.items():
        try:
            if before.get(key) != value:
                there.session.conf.set(key, value)
        except Exception as error:  # Connect and the JVM have different ones
            raise UsageError(f"--conf {key}: cannot be changed in a running session") from error
    return there


def _submitted() -> dict[str, str]:
    """What spark-submit was given, spark-defaults.conf with it."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _defaults() -> dict[str, str]:
    """What spark-defaults.conf says, where there is one: Java's property file, a setting a line."""
    home = os.environ.get("SPARK_CONF_DIR") or os.path.join(os.environ.get("SPARK_HOME", ""), "conf")  # noqa: PTH118
    try:
        text = Path(home, "spark-defaults.conf").read_text(encoding="utf-8")
    except OSError:
        return {}
    lines = (re.fullmatch(r"\s*(spark\.[^\s=:]+)[\s=:]+(.*?)\s*", line) for line in text.splitlines())
    return {line[1]: line[2] for line in lines if line}


def _scratch(folder: str) -> dict[str, str]:
    """Everything that Spark would put into the current folder goes to a temporary one."""
    return {
        "spark.sql.warehouse.dir": str(Path(folder, "warehouse")),
        "spark.local.dir": folder,
        "spark.sql.artifact.isolation.enabled": "false",
    }


def _local(light: bool) -> dict[str, str]:
    """On this machine: nothing listens to others, and its name need not resolve."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.python.daemon.module": "pipelines.spark.daemon",
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum": str(2 * (os.cpu_count() or 1)),
        _JAVA_OPTIONS: _SMALL_JAVA if light else "",
    }

"""Real servers on loopback, each a process of its own, ended with the block that uses it."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from getpass import getuser
from importlib.util import find_spec
from pathlib import Path

import pytest

from pipelines.storage import filesystem
from pipelines.storage.filesystem import StorageError
from tests import processes

HOST = "127.0.0.1"
ROOT = Path(__file__).parents[2]
_PATIENCE = 180.0  # seconds for a server to come up: the machine may be busy


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False


@contextmanager
def server(
    command: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None, ready: Callable[[], bool]
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ready to serve. Fails with the end of its log where it does not become so."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=env, start_new_session=True)
    try:
        until = time.monotonic() + _PATIENCE
        while not ready():
            if process.poll() is not None or time.monotonic() > until:
                pytest.fail(f"{Path(command[0]).name} does not come up: {log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield process
    finally:
        processes.end(process, 20)


# --- S3 --------------------------------------------------------------------------------------------------------------

KEY, SECRET = "test-key-id", "planted-s3-secret"


@dataclass
class ObjectStore:
    """An S3-compatible server, and the settings by which clients find it."""

    port: int
    log: Path

    @property
    def env(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://{HOST}:{self.port}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    @property
    def s3a(self) -> dict[str, str]:
        """The same as settings of Spark's."""
        settings = {
            "endpoint": f"{HOST}:{self.port}",
            "connection.ssl.enabled": "false",
            "path.style.access": "true",
            "access.key": KEY,
            "secret.key": SECRET,
        }
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """moto's S3 server."""
    if find_spec("moto") is None or find_spec("s3fs") is None:
        pytest.skip("needs moto[server] and s3fs: make test-cluster installs them")
    port, log = free_port(), folder / "s3.log"
    command = [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(port)]
    with server(command, log, ready=lambda: listens(port)):
        yield ObjectStore(port, log)


# --- Spark -----------------------------------------------------------------------------------------------------------


def spark_home() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        pytest.skip("needs pyspark")
    return Path(spec.origin).parent


def java_home() -> Path:
    from pipelines.spark import java

    try:
        return java.find().home
    except java.NoJavaError as error:
        pytest.skip(str(error))


def bare_python(folder: Path, *, without: Sequence[str] = ()) -> Path:
    """A Python that has the packages that this one has, but those whose names begin so, and nothing of this project."""
    from pipelines.spark.package import PACKAGES

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (ours,) = {Path(path) for path in sys.path if Path(path).name == "site-packages"}
    (theirs,) = folder.glob("lib/python*/site-packages")
    for entry in ours.iterdir():
        name = entry.name.lower().lstrip("_")
        if not name.startswith(("editable", *PACKAGES, *without)) and entry.suffix != ".pth":
            (theirs / entry.name).symlink_to(entry)
    python = folder / "bin" / "python"
    found = subprocess.run([python, "-c", "import dissectors"], capture_output=True, cwd=folder, env={}, check=False)
    assert b"No module named 'dissectors'" in found.stderr
    return python


def empty_python(folder: Path) -> Path:
    """A Python without any package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    found = subprocess.run([python, "-c", "import numpy"], capture_output=True, cwd=folder, env={}, check=False)
    assert b"No module named 'numpy'" in found.stderr
    return python


def older_spark(folder: Path, *packages: str) -> Path:
    """A Python with other packages, such as `pyspark<4.2`, and all else that this one has but its PySpark."""
    python = bare_python(folder, without=("pyspark", "py4j"))
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", *packages]
    installed = subprocess.run(command, capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"{packages[0]} cannot be had: {installed.stderr[-500:]}")
    return python


def maven(what: str, *words: str) -> None:
    """Run Maven for what a test needs."""
    if shutil.which("mvn") is None:
        pytest.skip(f"needs Maven, for {what}")
    fetched = subprocess.run(["mvn", "-q", "-B", *words], capture_output=True, text=True, check=False)
    if fetched.returncode:
        pytest.skip(f"{what} cannot be had: {fetched.stdout[-500:]}")


def classpath(pom: str, what: str, folder: Path, *words: str) -> str:
    """The jars that a project of Maven below this folder names, as Java takes them."""
    found = folder / "classpath"
    goal = ["dependency:build-classpath", f"-Dmdep.outputFile={found}"]
    maven(what, "-f", str(ROOT / "tests" / "cluster" / pom), *words, *goal)
    return found.read_text()


@dataclass
class Standalone:
    """A standalone cluster: its master's URL, and its workers."""

    master: str
    folder: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def conf(self, python: Path) -> list[str]:
        """Options of `analyze`: tasks run in this Python, two executors of a core each."""
        settings = {
            "spark.pyspark.python": str(python),
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.driver.memory": "1g",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
        }
        return [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]


@contextmanager
def standalone(folder: Path, env: Mapping[str, str], *, unshared: Path | None = None) -> Iterator[Standalone]:
    """A master and two workers with working folders of their own, that know nothing of this project.

    unshared: a folder that each worker sees as an empty one of its own.
    """
    folder.mkdir()
    home = spark_home()
    base = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    base |= {"JAVA_HOME": str(java_home()), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST, **env}
    start, port = str(home / "bin" / "spark-class"), free_port()
    role = "org.apache.spark.deploy.{0}.{1}".format

    def daemon(*words: str) -> list[str]:
        return [start, *words, "--host", HOST, "--webui-port", str(free_port())]

    with ExitStack() as stack:
        log = folder / "master.log"
        master = daemon(role("master", "Master"), "--port", str(port))
        stack.enter_context(server(master, log, env=base, ready=lambda: listens(port)))
        cluster = Standalone(f"spark://{HOST}:{port}", folder)
        for number in range(2):
            work, log = folder / f"worker-{number}", folder / f"worker-{number}.log"
            work.mkdir()
            command = daemon(role("worker", "Worker"), cluster.master, "--cores", "1", "--memory", "600m")
            command += ["--work-dir", str(work)]
            if unshared is not None:
                script = f"mount -t tmpfs none '{unshared}' && exec \"$@\""
                command = ["unshare", "--mount", "sh", "-c", script, "worker", *command]
            cluster.workers.append(stack.enter_context(server(command, log, env=base, ready=partial(_registered, log))))
        yield cluster


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """The URL of a Spark Connect server whose tasks have this project."""
    if find_spec("grpc_status") is None:
        pytest.skip("needs grpcio-status: make test-cluster installs it")
    home, port, log = spark_home(), free_port(), folder / "connect.log"
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    settings = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": HOST,
        "spark.driver.host": HOST,
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder),
    }
    command += [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    env = os.environ | {"JAVA_HOME": str(java_home()), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST}
    env |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    with server(command, log, env=env, ready=lambda: listens(port)):
        yield f"sc://{HOST}:{port}"


# --- HDFS ------------------------------------------------------------------------------------------------------------


@dataclass
class Hdfs:
    """A NameNode and a DataNode."""

    url: str
    web: str


@contextmanager
def hdfs(folder: Path) -> Iterator[Hdfs]:
    """Hadoop's mini cluster, of the version whose client PySpark has."""
    if find_spec("hdfs_native") is None:
        pytest.skip("needs hdfs-native: make test-cluster installs it")
    jars = spark_home() / "jars"
    (client,) = jars.glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    needed = classpath("hdfs/pom.xml", "Hadoop's mini cluster", folder, f"-Dhadoop={version}")
    port, web, log = free_port(), free_port(), folder / "hdfs.log"
    command = [str(java_home() / "bin" / "java"), "-Xmx512m", "-cp", f"{needed}:{jars}/*"]
    command += [f"-Dtest.build.data={folder}", "org.apache.hadoop.mapreduce.MiniHadoopClusterManager", "-nomr"]
    command += ["-nnport", str(port), "-nnhttpport", str(web), "-datanodes", "1", "-format"]
    running = Hdfs(f"hdfs://{HOST}:{port}", f"webhdfs://{getuser()}@{HOST}:{web}")
    with server(command, log, ready=lambda: listens(port) and listens(web) and _takes_files(running.url)):
        yield running


def _takes_files(root: str) -> bool:
    """Whether a DataNode has come up too."""
    with suppress(StorageError):
        filesystem.write(f"{root}/first", b"1")
        return True
    return False


def _registered(log: Path) -> bool:
    return "Successfully registered" in log.read_text()


def can_unshare() -> bool:
    """Whether a process may have a view of the file systems of its own here."""
    command = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /mnt"]
    with suppress(OSError):
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False

"""Starting and stopping the nodes of one cluster. Its folder holds all that it is."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from . import settings, tls, wire
from .artifacts import NODE, Jars
from .settings import HOST, MECHANISMS, NodePlan, User, Wanted

START_WITHIN_S = 60
STOP_WITHIN_S = 20
HEAP = "-Xmx256m"
RECORD = "cluster.json"


class Failed(Exception):
    """A cluster that did not start or stop, with the end of the log that tells why."""


def start(wanted: Wanted, jars: Jars, home: Path, bound_to_parent: bool) -> dict[str, str]:
    """Formats and starts; returns the variables that tell clients where it is."""
    home.mkdir(parents=True, exist_ok=True)
    user = User()
    nodes = settings.plan(wanted, home)
    if wanted.tls:
        tls.issue(home / "tls")
    for node in nodes:
        node.home.mkdir()
        node.settings_file.write_text(settings.properties(wanted, nodes, node, user))
    format_all(wanted, jars, nodes, user)
    record = home / RECORD
    # A second node must not read the archive while the first one writes it: only one records.
    archive = jars.archive()
    fresh = home / "classes.jsa" if not archive.is_file() else None
    processes: list[subprocess.Popen] = []
    try:
        for node in nodes:
            extra = (f"-XX:ArchiveClassesAtExit={fresh}",) if fresh and node is nodes[0] else ()
            processes.append(launch(jars, node, extra, bound_to_parent))
        record.write_text(
            json.dumps(
                {
                    "pids": [process.pid for process in processes],
                    "fresh_archive": str(fresh) if fresh else None,
                    "archive": str(archive),
                }
            )
        )
        await_ready(nodes, processes)
    except BaseException:
        record.exists() and stop(home, keep=True)
        raise
    return variables(wanted, jars, nodes, user, home)


def format_all(wanted: Wanted, jars: Jars, nodes: list[NodePlan], user: User) -> None:
    cluster_id = settings.uuid()
    jobs = []
    for node in nodes:
        arguments = ["format", "-t", cluster_id, "-c", str(node.settings_file)]
        if wanted.sasl:
            for mechanism in MECHANISMS[1:]:
                secret = f"{mechanism}=[name={user.name},password={user.password}]"
                arguments += ["--add-scram", secret]
        log = open(node.home / "format.log", "wb")
        command = jars.command("kafka.tools.StorageTool", *arguments)
        jobs.append((node, subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)))
    for node, job in jobs:
        if job.wait() != 0:
            raise Failed(f"format failed:\n{tail(node.home / 'format.log')}")


def launch(
    jars: Jars, node: NodePlan, options: tuple[str, ...], bound_to_parent: bool
) -> subprocess.Popen:
    command = jars.command(NODE, str(node.settings_file), options=(HEAP, *options))
    # A run that is killed must not leave nodes behind.
    if bound_to_parent and shutil.which("setpriv"):
        command = ["setpriv", "--pdeathsig", "TERM", *command]
    with open(node.home / "node.log", "wb") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # A Ctrl-C belongs to the command that is run, not to the nodes.
            start_new_session=True,
        )


def await_ready(nodes: list[NodePlan], processes: list[subprocess.Popen]) -> None:
    def alive() -> None:
        for node, process in zip(nodes, processes):
            if process.poll() is not None:
                raise Failed(f"node {node.node_id} ended:\n{tail(node.home / 'node.log')}")

    ports = [node.ports["PLAINTEXT"] for node in nodes]
    deadline = time.monotonic() + START_WITHIN_S
    while True:
        alive()
        try:
            wire.wait_until_warm(ports, min(deadline, time.monotonic() + 2))
            return
        except wire.NotReady as error:
            if time.monotonic() >= deadline:
                raise Failed(f"{error}\n{tail(nodes[0].home / 'node.log')}") from error


def variables(
    wanted: Wanted, jars: Jars, nodes: list[NodePlan], user: User, home: Path
) -> dict[str, str]:
    def bootstrap(listener: str) -> str:
        return ",".join(f"{HOST}:{node.ports[listener]}" for node in nodes)

    found = {
        "KAFKA_BOOTSTRAP": bootstrap("PLAINTEXT"),
        "KAFKA_VERSION": jars.version,
        "ORACLE_HOME": str(home),
    }
    if wanted.sasl:
        found["KAFKA_BOOTSTRAP_SASL"] = bootstrap("SASL_PLAINTEXT")
        found["KAFKA_SASL_USERNAME"] = user.name
        found["KAFKA_SASL_PASSWORD"] = user.password
    if wanted.tls:
        found["KAFKA_BOOTSTRAP_TLS"] = bootstrap("SSL")
        found["KAFKA_CA"] = str(home / "tls/ca.crt")
        found["KAFKA_CLIENT_CERT"] = str(home / "tls/client.crt")
        found["KAFKA_CLIENT_KEY"] = str(home / "tls/client.key")
    if wanted.sasl and wanted.tls:
        found["KAFKA_BOOTSTRAP_SASL_TLS"] = bootstrap("SASL_SSL")
    return found


def stop(home: Path, keep: bool) -> None:
    """Ends the nodes that `start` noted in this folder, and removes the folder unless `keep`."""
    record = json.loads((home / RECORD).read_text())
    pids = [pid for pid in record["pids"] if is_ours(pid, home)]
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_WITHIN_S
    while any(is_ours(pid, home) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in pids:
        if is_ours(pid, home):
            os.kill(pid, signal.SIGKILL)
    fresh = record["fresh_archive"]
    if fresh and Path(fresh).is_file() and not Path(record["archive"]).is_file():
        # Within one file system a rename shows readers the whole archive or none.
        beside = Path(record["archive"] + f".{os.getpid()}")
        shutil.copyfile(fresh, beside)
        beside.rename(record["archive"])
    if keep:
        (home / RECORD).unlink()
    else:
        shutil.rmtree(home)


def is_ours(pid: int, home: Path) -> bool:
    """Whether this pid still is a node of this folder: pids are used again, command lines tell."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return str(home).encode() in command and state != "Z"


def tail(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:] if log.is_file() else f"{log} is missing"

"""Jars of one Kafka version in the user's cache, and how to run a main class of them.

May call Maven (only for what the cache lacks) and java; touches nothing outside the cache.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOG4J_VERSION = "2.25.5"
# The main class of a node; all others are tools.
NODE = "kafka.Kafka"


class Missing(Exception):
    """Something this machine lacks, in words for the person who started the command."""


def cache() -> Path:
    """Where everything fetched stays between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kastellan"


def tool(name: str) -> str:
    """The path of an executable, or why there is none."""
    found = shutil.which(name)
    if found is None:
        raise Missing(f"{name} is not on the PATH")
    return found


def java() -> str:
    """JAVA_HOME's java before the PATH's, as Maven and Kafka's own scripts choose."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin/java").is_file():
        return str(Path(home) / "bin/java")
    return tool("java")


@dataclass(frozen=True)
class Jars:
    """The class path of one Kafka version."""

    version: str
    folder: Path

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])

    def classpath(self) -> str:
        """One by one and sorted: a class data archive is bound to this very list."""
        return ":".join(str(jar) for jar in sorted(self.folder.glob("*.jar")))

    def archive(self) -> Path:
        """The class data archive for these jars on this java: halves the start of a JVM."""
        stamp = hashlib.sha256(java_version().encode())
        for jar in sorted(self.folder.glob("*.jar")):
            stamp.update(f"{jar.name} {jar.stat().st_mtime_ns}\n".encode())
        return self.folder / f"classes-{stamp.hexdigest()[:16]}.jsa"

    def command(self, main: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
        """The command line of a main class, with the archive when there is one."""
        # Warnings of the JVM would else stand in a tool's output.
        line = [java(), "-Xlog:disable", "-Xlog:all=error:stderr", "-XX:+UseSerialGC"]
        line += ["-XX:TieredStopAtLevel=1", *options]
        if self.archive().is_file():
            line.append(f"-XX:SharedArchiveFile={self.archive()}")
        logging = (
            f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"
            if self.major >= 4
            else f"-Dlog4j.configuration=file:{HERE / 'log4j.properties'}"
        )
        level = f"-Doracle.level={'INFO' if main == NODE else 'WARN'}"
        return [*line, logging, level, "-cp", self.classpath(), main, *arguments]


def java_version() -> str:
    """What `java -version` says; it prints to standard error."""
    return subprocess.run(
        [java(), "-version"], check=True, capture_output=True, text=True
    ).stderr


def fetch(version: str) -> Jars:
    """The jars of a version, through Maven when the cache has none."""
    folder = cache() / "oracle" / version
    if (folder / "complete").is_file():
        return Jars(version, folder)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").is_file():
            copy_dependencies(version, folder)
            (folder / "complete").touch()
    return Jars(version, folder)


def copy_dependencies(version: str, folder: Path) -> None:
    command = [tool("mvn"), "-q", "-B", "-Dstyle.color=never", "-f", str(HERE / "pom.xml")]
    if int(version.split(".")[0]) >= 4:
        command += ["-Plog4j2", f"-Dlog4j.version={LOG4J_VERSION}"]
    command += [f"-Dkafka.version={version}", "dependency:copy-dependencies"]
    done = subprocess.run(
        [*command, f"-DoutputDirectory={folder}"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Missing(f"Maven did not bring Kafka {version}:\n{done.stdout[-2000:]}")

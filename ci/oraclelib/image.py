"""A local container image of one Kafka node, from what this machine has: no registry is asked.

The image holds this machine's Java and the shared libraries it needs, a static busybox, the jars and a
start script. Variables of a container: KAFKA_PORT (9092), KAFKA_CONTROLLER_PORT (9093) and
KAFKA_ADVERTISED (127.0.0.1 and the port). Needs docker, busybox-static and an engine.
"""

import io
import os
import subprocess
import tarfile
from pathlib import Path

from . import settings
from .artifacts import HERE, Jars, Missing, java, tool
from .settings import HOST, NodePlan, User, Wanted

PORT, CONTROLLER_PORT, ADVERTISED = "@PORT@", "@CONTROLLER_PORT@", "@ADVERTISED@"
START = """#!/bin/sh
# Formats the data folder once, then becomes the node.
set -eu
port=${KAFKA_PORT:-9092}
sed -e "s/@PORT@/$port/g" -e "s/@CONTROLLER_PORT@/${KAFKA_CONTROLLER_PORT:-9093}/g" \\
  -e "s/@ADVERTISED@/${KAFKA_ADVERTISED:-127.0.0.1:$port}/g" /kafka/template >/kafka/server.properties
run() { exec /java/bin/java -XX:+UseSerialGC -Xmx256m LOGGING -cp '/kafka/jars/*' "$@"; }
[ -d /kafka/data ] || (run kafka.tools.StorageTool format -t ID -c /kafka/server.properties)
run kafka.Kafka /kafka/server.properties
"""


def build(jars: Jars) -> str:
    """Builds the image and returns its name."""
    docker = tool("docker")
    name = f"kastellan/kafka:{jars.version}"
    engine = subprocess.run([docker, "version"], capture_output=True, text=True, check=False)
    if engine.returncode != 0:
        raise Missing(f"no container engine answers: {engine.stderr.strip()}")
    changes = ["CMD [\"/bin/sh\", \"/kafka/start\"]", "ENV PATH=/bin:/java/bin", "EXPOSE 9092"]
    command = [docker, "import", *(part for each in changes for part in ("--change", each))]
    with subprocess.Popen(
        [*command, "-", name], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as importer:
        assert importer.stdin is not None
        with tarfile.open(fileobj=importer.stdin, mode="w|") as tar:
            fill(tar, jars)
        importer.stdin.close()
    if importer.returncode != 0:
        raise Missing("the engine did not take the image")
    return name


def fill(tar: tarfile.TarFile, jars: Jars) -> None:
    home = Path(os.path.realpath(java())).parent.parent
    busybox = tool("busybox")
    tar.add(os.path.realpath(busybox), "bin/busybox")
    for applet in ("sh", "sed"):
        link = tarfile.TarInfo(f"bin/{applet}")
        link.type, link.linkname = tarfile.SYMTYPE, "busybox"
        tar.addfile(link)
    folder = tarfile.TarInfo("tmp")
    folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
    tar.addfile(folder)
    for part in ("bin", "lib", "conf"):
        for file in sorted((home / part).rglob("*")):
            # Debian's Java has links out of its folder; what they point to is taken.
            if file.is_file() and file.suffix not in (".zip", ".jsa"):
                whole(tar, file, f"java/{part}/{file.relative_to(home / part)}")
    for library in libraries(home):
        whole(tar, library, str(library).lstrip("/"))
    for jar in jars.folder.glob("*.jar"):
        whole(tar, jar, f"kafka/jars/{jar.name}")
    for file in ("log4j2.properties", "log4j.properties"):
        whole(tar, HERE / file, f"kafka/{file}")
    logging = (
        "-Dlog4j2.configurationFile=/kafka/log4j2.properties"
        if jars.major >= 4
        else "-Dlog4j.configuration=file:/kafka/log4j.properties"
    )
    text(tar, "kafka/template", template(jars))
    text(tar, "kafka/start", START.replace("LOGGING", f"{logging} -Doracle.level=INFO").replace("ID", settings.uuid()))


def template(jars: Jars) -> str:
    """A node's settings with marks in place of what a container is told."""
    # Marks stand where numbers do.
    ports: dict = {"PLAINTEXT": PORT, "CONTROLLER": CONTROLLER_PORT}
    node = NodePlan(1, Path("/kafka"), ports)
    lines = settings.properties(Wanted(jars.version), [node], node, User())
    return lines.replace(
        f"advertised.listeners=PLAINTEXT://{HOST}:{PORT}",
        f"advertised.listeners=PLAINTEXT://{ADVERTISED}",
    ).replace(f"\nlisteners=PLAINTEXT://{HOST}:", "\nlisteners=PLAINTEXT://0.0.0.0:")


def libraries(home: Path) -> list[Path]:
    """Shared libraries outside of Java's own folder, the loader among them."""
    found = set()
    for program in [home / "bin/java", *home.glob("lib/**/*.so")]:
        listed = subprocess.run([tool("ldd"), program], capture_output=True, text=True, check=False)
        for word in listed.stdout.split():
            if word.startswith("/") and not word.startswith(str(home)):
                found.add(Path(word))
    return sorted(found)


def whole(tar: tarfile.TarFile, file: Path, name: str) -> None:
    """Adds a file's bytes even where the path is a link."""
    entry = tar.gettarinfo(os.path.realpath(file), name)
    with open(file, "rb") as data:
        tar.addfile(entry, data)


def text(tar: tarfile.TarFile, name: str, content: str) -> None:
    entry = tarfile.TarInfo(name)
    data = content.encode()
    entry.size, entry.mode = len(data), 0o755
    tar.addfile(entry, io.BytesIO(data))

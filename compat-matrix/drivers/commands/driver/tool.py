"""Running one tool and reading what it says."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from oraclelib.artifacts import fetch

from ..lines import Unsupported
from ..values import CODES

PACKAGE = "org.apache.kafka.tools"
CALL_S = 28
EXCEPTION = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+)Exception")
# Exceptions whose names say something else than the code's.
NAMED = {
    "ClusterAuthorization": "CLUSTER_AUTHORIZATION_FAILED",
    "CorruptRecord": "CORRUPT_MESSAGE",
    "DuplicateSequence": "DUPLICATE_SEQUENCE_NUMBER",
    "GroupAuthorization": "GROUP_AUTHORIZATION_FAILED",
    "GroupNotEmpty": "NON_EMPTY_GROUP",
    "InvalidConfiguration": "INVALID_CONFIG",
    "InvalidPidMapping": "INVALID_PRODUCER_ID_MAPPING",
    "InvalidTopic": "INVALID_TOPIC_EXCEPTION",
    "InvalidTxnTimeout": "INVALID_TRANSACTION_TIMEOUT",
    "KafkaStorage": "KAFKA_STORAGE_ERROR",
    "OutOfOrderSequence": "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "RecordBatchTooLarge": "RECORD_LIST_TOO_LARGE",
    "RecordTooLarge": "MESSAGE_TOO_LARGE",
    "SaslAuthentication": "SASL_AUTHENTICATION_FAILED",
    "TopicAuthorization": "TOPIC_AUTHORIZATION_FAILED",
    "TopicExists": "TOPIC_ALREADY_EXISTS",
    "TransactionalIdAuthorization": "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "UnknownServer": "UNKNOWN_SERVER_ERROR",
}


class Failed(Exception):
    """A tool that ended with another status than 0, or printed an error."""

    def __init__(self, output: str):
        super().__init__(output.strip()[-1000:])
        self.code = code(output)


def code(text: str) -> str | None:
    """Kafka's name of the code whose exception is printed first."""
    found = EXCEPTION.search(text)
    if found is None:
        return None
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", found[1]).upper()
    name = NAMED.get(found[1], snake)
    return name if name in CODES.values() else None


class Tools:
    """All tools of one version against one cluster."""

    def __init__(self, version: str, begin: dict):
        self.jars = fetch(version)
        self.bootstrap = begin["bootstrap"]
        self.folder = Path(tempfile.mkdtemp(prefix="driver-commands-"))
        self.config = self.folder / "client.properties"
        self.config.touch(mode=0o600)
        self.config.write_text(properties(begin))

    def run(self, tool: str, *arguments: str) -> str:
        """What the tool prints on standard output."""
        command = self.jars.command(
            f"{PACKAGE}.{tool}",
            *("--bootstrap-server", self.bootstrap, "--command-config", str(self.config)),
            *arguments,
        )
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CALL_S,
            check=False,
        )
        # Some tools end with 0 after an error.
        said = re.search(r"^\s*Error", done.stdout, re.MULTILINE)
        if done.returncode != 0 or said:
            raise Failed(done.stdout + done.stderr)
        return done.stdout

    def file(self, name: str, content: str) -> str:
        """A file for a tool that reads its orders from one."""
        path = self.folder / name
        path.write_text(content)
        return str(path)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def properties(begin: dict) -> str:
    """The client's configuration file."""
    tls, sasl = begin.get("tls"), begin.get("sasl")
    entries = {"client.id": begin["client_id"]}
    if tls:
        entries |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": tls["ca_file"]}
    if sasl:
        kind = "plain.Plain" if sasl["mechanism"] == "PLAIN" else "scram.Scram"
        if any('"' in sasl[part] or "\\" in sasl[part] for part in ("username", "password")):
            raise Unsupported("quotes in a user name or password")
        entries["sasl.mechanism"] = sasl["mechanism"]
        entries["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{kind}LoginModule required "
            f'username="{sasl["username"]}" password="{sasl["password"]}";'
        )
    transport = "SSL" if tls else "PLAINTEXT"
    entries["security.protocol"] = f"SASL_{transport}" if sasl else transport
    return "".join(f"{name}={value}\n" for name, value in entries.items())


def outcome(act) -> str | None:
    """None when it worked, else the code's name or the tool's words."""
    try:
        act()
    except Failed as failed:
        return failed.code or str(failed)
    return None


def table(text: str) -> list[dict]:
    """The rows of a table under its heading, by column name."""
    rows, heading = [], None
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["GROUP"]:
            heading = words
        elif heading and words:
            rows.append(dict(zip(heading, words)))
    return rows

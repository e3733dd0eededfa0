"""The few Kafka requests that tell whether a cluster serves, made by hand.

A client library would be one more thing that must be there before the first test can run.
"""

import socket
import struct
import time

METADATA, FIND_COORDINATOR, DESCRIBE_GROUPS = 3, 10, 15
# Codes of a coordinator that is still being made or loaded.
NOT_YET = {14, 15, 16}


class NotReady(Exception):
    """No answer in time; says which step was waited for."""


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def ask(port: int, key: int, version: int, body: bytes) -> bytes:
    """One request on a connection of its own; the answer's body."""
    header = struct.pack(">hhi", key, version, 1) + string("oracle")
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        stream = connection.makefile("rb")
        (length,) = struct.unpack(">i", exactly(stream, 4))
        return exactly(stream, length)[4:]


def exactly(stream, count: int) -> bytes:
    data = stream.read(count)
    if len(data) != count:
        raise OSError("the node closed the connection")
    return data


def brokers(port: int) -> int:
    """How many brokers Metadata v1 without topics names."""
    return struct.unpack_from(">i", ask(port, METADATA, 1, struct.pack(">i", 0)))[0]


def coordinator(port: int, kind: int) -> tuple[int, int]:
    """Error code and port of a coordinator; the first question makes Kafka create its topic."""
    body = ask(port, FIND_COORDINATOR, 1, string("oracle-warm-up") + bytes([kind]))
    _, code, message = struct.unpack_from(">ihh", body)
    at = 8 + max(message, 0)
    _, host = struct.unpack_from(">ih", body, at)
    return code, struct.unpack_from(">i", body, at + 6 + max(host, 0))[0]


def group_code(port: int) -> int:
    """The code of DescribeGroups v0 for a group that does not exist: 0 once the shard is loaded."""
    body = ask(port, DESCRIBE_GROUPS, 0, struct.pack(">i", 1) + string("oracle-warm-up"))
    return struct.unpack_from(">ih", body)[1]


def wait(deadline: float, what: str, probe) -> None:
    """Asks until `probe` is true; a refused connection is an answer of a node that starts."""
    last: object = "nothing"
    while time.monotonic() < deadline:
        try:
            if probe():
                return
            last = "an answer that says not yet"
        except OSError as error:
            last = error
        time.sleep(0.05)
    raise NotReady(f"{what}: no success in time, the last thing heard was {last}")


def wait_until_warm(ports: list[int], deadline: float) -> None:
    """Every node knows every node; both kinds of coordinators answer."""
    for port in ports:
        wait(deadline, f"Metadata on port {port}", lambda p=port: brokers(p) == len(ports))
    for kind in (0, 1):
        wait(
            deadline,
            f"coordinator of kind {kind}",
            lambda k=kind: coordinator(ports[0], k)[0] == 0,
        )
    wait(
        deadline,
        "the group coordinator",
        lambda: group_code(coordinator(ports[0], 0)[1]) not in NOT_YET,
    )

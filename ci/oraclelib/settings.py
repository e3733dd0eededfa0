"""What a node is configured with.

A node has a plaintext listener always; SASL and TLS listeners are added beside it, so that one
cluster serves clients of every kind. Small buffers and few threads: a test machine is no server.
"""

import base64
import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path

HOST = "127.0.0.1"
SECURITY = "org.apache.kafka.common.security"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True)
class Wanted:
    """What was asked for on the command line."""

    version: str
    nodes: int = 1
    sasl: bool = False
    tls: bool = False
    authorizer: bool = False
    properties: tuple[str, ...] = ()

    def listeners(self) -> list[str]:
        """Security protocols that clients may use, each on a port of its own."""
        names = ["PLAINTEXT"]
        if self.sasl:
            names.append("SASL_PLAINTEXT")
        if self.tls:
            names.append("SSL")
        if self.sasl and self.tls:
            names.append("SASL_SSL")
        return names


@dataclass(frozen=True)
class User:
    """The one SASL user; its password lives as long as the cluster."""

    name: str = "alice"
    password: str = field(default_factory=lambda: secrets.token_urlsafe(12))


@dataclass(frozen=True)
class NodePlan:
    """One node: where its files are and which port each listener has."""

    node_id: int
    home: Path
    ports: dict[str, int]

    @property
    def settings_file(self) -> Path:
        return self.home / "server.properties"


def uuid() -> str:
    """A Kafka id: 16 bytes in URL-safe Base64. Tools take a leading minus for an option."""
    while True:
        text = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def plan(wanted: Wanted, home: Path) -> list[NodePlan]:
    """Nodes with free ports. All sockets stay open until all ports are known, so none comes twice."""
    names = [*wanted.listeners(), "CONTROLLER"]
    held = {(node, name): socket.socket() for node in range(wanted.nodes) for name in names}
    try:
        for held_socket in held.values():
            held_socket.bind((HOST, 0))
        return [
            NodePlan(
                node + 1,
                home / f"node-{node + 1}",
                {name: held[node, name].getsockname()[1] for name in names},
            )
            for node in range(wanted.nodes)
        ]
    finally:
        for held_socket in held.values():
            held_socket.close()


def properties(wanted: Wanted, nodes: list[NodePlan], node: NodePlan, user: User) -> str:
    """The node's server.properties."""
    clients = wanted.listeners()
    # Passwords of the plaintext listener's peers do not exist: nodes talk to each other there.
    replicas = str(min(3, wanted.nodes))
    in_sync = str(min(2, wanted.nodes))
    entries = {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(
            f"{each.node_id}@{HOST}:{each.ports['CONTROLLER']}" for each in nodes
        ),
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in node.ports.items()),
        "advertised.listeners": ",".join(
            f"{name}://{HOST}:{node.ports[name]}" for name in clients
        ),
        "listener.security.protocol.map": ",".join(
            ["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in clients)]
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(node.home / "data"),
        "default.replication.factor": replicas,
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.dedupe.buffer.size": "2097152",
        "num.network.threads": "2",
        "num.io.threads": "2",
        "background.threads": "2",
    }
    internal = ["offsets.topic", "transaction.state.log"]
    if wanted.version.startswith("3."):
        entries["group.coordinator.rebalance.protocols"] = "classic,consumer"
    else:
        internal.append("share.coordinator.state.topic")
        entries["group.streams.initial.rebalance.delay.ms"] = "0"
    for topic in internal:
        entries[f"{topic}.num.partitions"] = "4"
        entries[f"{topic}.replication.factor"] = replicas
    entries["transaction.state.log.min.isr"] = in_sync
    if not wanted.version.startswith("3."):
        entries["share.coordinator.state.topic.min.isr"] = in_sync
    if wanted.authorizer:
        entries["authorizer.class.name"] = (
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        )
        # Nodes are anonymous to each other on the plaintext listener.
        entries["super.users"] = "User:ANONYMOUS;User:admin"
    if wanted.sasl:
        entries |= sasl(wanted, user)
    if wanted.tls:
        entries |= tls(node)
    entries |= dict(line.split("=", 1) for line in wanted.properties)
    return "".join(f"{name}={value}\n" for name, value in entries.items())


def sasl(wanted: Wanted, user: User) -> dict[str, str]:
    entries = {"sasl.enabled.mechanisms": ",".join(MECHANISMS)}
    plain = f'{SECURITY}.plain.PlainLoginModule required user_{user.name}="{user.password}";'
    scram = f"{SECURITY}.scram.ScramLoginModule required;"
    for listener in wanted.listeners():
        if listener.startswith("SASL"):
            prefix = f"listener.name.{listener.lower()}"
            entries[f"{prefix}.plain.sasl.jaas.config"] = plain
            for mechanism in MECHANISMS[1:]:
                entries[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = scram
    return entries


def tls(node: NodePlan) -> dict[str, str]:
    folder = node.home.parent / "tls"
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.crt"),
        "listener.name.ssl.ssl.client.auth": "requested",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
    }

"""Records the batches that a real librdkafka (kcat) produces, one for each codec.

Serves as much of a broker as kcat needs (ApiVersions, Metadata, InitProducerId, Produce) on a
loopback port and writes each RECORDS field it is sent to FOLDER/librdkafka-CODEC.hex.

    python3 capture_librdkafka.py FOLDER
"""

import pathlib
import socket
import struct
import subprocess
import sys
import textwrap
import threading

# Only what is below is ever called. librdkafka writes record batches only where Fetch 4 is there too,
# and compresses only where Produce is advertised from version 0, as Kafka does for its sake.
APIS = {0: (0, 7), 1: (4, 10), 3: (1, 1), 10: (0, 0), 18: (0, 0), 22: (0, 0)}
TOPIC = b"golden"


def read_exactly(connection, count):
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return data


def string(text):
    return struct.pack(">h", len(text)) + text


def api_versions(error):
    rows = b"".join(struct.pack(">hhh", key, *window) for key, window in APIS.items())
    return struct.pack(">hi", error, len(APIS)) + rows


def metadata(port):
    broker = struct.pack(">i", 1) + string(b"127.0.0.1") + struct.pack(">i", port) + struct.pack(">h", -1)
    partition = struct.pack(">hiiiiii", 0, 0, 1, 1, 1, 1, 1)
    topic = struct.pack(">h", 0) + string(TOPIC) + b"\0" + struct.pack(">i", 1) + partition
    return struct.pack(">i", 1) + broker + struct.pack(">i", 1) + struct.pack(">i", 1) + topic


def produce(body, captured):
    at = 0
    (length,) = struct.unpack_from(">h", body, at)
    at += 2 + max(length, 0) + 2 + 4 + 4
    (length,) = struct.unpack_from(">h", body, at)
    at += 2 + length + 4
    _partition, size = struct.unpack_from(">ii", body, at)
    captured.append(body[at + 8 : at + 8 + size])
    answer = struct.pack(">ihqqq", 0, 0, 0, -1, 0)
    return struct.pack(">i", 1) + string(TOPIC) + struct.pack(">i", 1) + answer + struct.pack(">i", 0)


def serve(connection, port, captured):
    try:
        while True:
            (size,) = struct.unpack(">i", read_exactly(connection, 4))
            frame = read_exactly(connection, size)
            key, version, correlation, client = struct.unpack_from(">hhih", frame)
            body = frame[10 + max(client, 0) :]
            if key == 18:
                answer = api_versions(0 if version == 0 else 35)
            elif key == 3:
                answer = metadata(port)
            elif key == 22:
                answer = struct.pack(">ihqh", 0, 0, 9000, 5)
            else:
                answer = produce(body, captured)
            connection.sendall(struct.pack(">ii", len(answer) + 4, correlation) + answer)
    except (EOFError, OSError):
        connection.close()


def accept(listener, port, captured):
    while True:
        connection, _peer = listener.accept()
        threading.Thread(target=serve, args=(connection, port, captured), daemon=True).start()


def main(folder):
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    captured = []
    threading.Thread(target=accept, args=(listener, port, captured), daemon=True).start()
    text = "".join(f"line {number};" for number in range(200))
    for codec in ["none", "gzip", "snappy", "lz4", "zstd", "idempotent"]:
        options = (
            ["enable.idempotence=true"] if codec == "idempotent" else [f"compression.codec={codec}"]
        )
        arguments = ["-b", f"127.0.0.1:{port}", "-P", "-t", TOPIC.decode(), "-K", ":", "-Z"]
        arguments += ["-H", "h=1", "-H", "h=2", "-X", "linger.ms=200"]
        for option in options:
            arguments += ["-X", option]
        captured.clear()
        lines = f"key:first\n:empty key\nnull:\nlong:{text}\n"
        subprocess.run(["kcat", *arguments], input=lines.encode(), check=True, timeout=30)
        (records,) = captured
        hexadecimal = "\n".join(textwrap.wrap(records.hex(), 64)) + "\n"
        (folder / f"librdkafka-{codec}.hex").write_text(hexadecimal)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))

"""A certificate authority of a day, one server and one client certificate. Calls openssl."""

import subprocess
from pathlib import Path

from .artifacts import tool


def issue(folder: Path) -> None:
    """Writes ca.crt, server.pem and client.pem (key then chain), client.key and client.crt."""
    folder.mkdir(parents=True)
    openssl("req", "-x509", *new_key(folder / "ca.key"), "-subj", "/CN=oracle CA",
            "-days", "2", "-out", folder / "ca.crt")
    for name, extension in (
        ("server", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        ("client", "extendedKeyUsage=clientAuth"),
    ):
        key, request, certificate = (folder / f"{name}.{end}" for end in ("key", "csr", "crt"))
        openssl("req", "-new", *new_key(key), "-subj", f"/CN={name}", "-addext", extension,
                "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", folder / "ca.crt",
                "-CAkey", folder / "ca.key", "-CAcreateserial", "-days", "2",
                "-copy_extensions", "copy", "-out", certificate)
        (folder / f"{name}.pem").write_text(key.read_text() + certificate.read_text())


def new_key(path: Path) -> list[str]:
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", str(path)]


def openssl(*arguments: object) -> None:
    subprocess.run([tool("openssl"), *map(str, arguments)], check=True, capture_output=True)

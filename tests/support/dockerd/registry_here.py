"""A registry with TLS and a password on this machine, as Debian has it, and how to fill it."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from support.dockerd import dockerd_here
from support.dockerd.dockerd_here import Daemon
from support.servers import debian
from support.servers.ports import free_port

NEEDS = {
    "docker-registry": "docker-registry", "openssl": "openssl", "htpasswd": "apache2-utils",
}  # fmt: skip
USER, PASSWORD = "somebody", "registry-Passwort-1"


class Registry:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Of the daemon's bridge: on loopback a daemon falls back to plain HTTP, whose error hides
        # the first.
        self.address = dockerd_here.address()
        self.port = free_port(self.address)
        self.name = f"{self.address}:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        debian.need("docker", NEEDS)
        run = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem",
             "-out", "cert.pem",
               "-days", "2", "-subj", "/CN=localhost", "-addext", f"subjectAltName=DNS:localhost,IP:{self.address}"]  # fmt: skip
        subprocess.run(run, cwd=self.folder, check=True, capture_output=True)
        made = subprocess.run(
            ["htpasswd", "-nbB", USER, PASSWORD], check=True, capture_output=True, text=True
        )
        (self.folder / "users").write_text(made.stdout.strip() + "\n")
        (self.folder / "config.yml").write_text(
            f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {self.folder}/store}}}}\n"
            f"http: {{addr: '{self.name}', tls: {{certificate: {self.folder}/cert.pem, key: {self.folder}/key.pem}}}}\n"
            f"auth: {{htpasswd: {{realm: test, path: {self.folder}/users}}}}\n"
        )
        with (self.folder / "registry.log").open("wb") as log:
            argv = ["docker-registry", "serve", str(self.folder / "config.yml")]
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
        self.trust(self.port)
        dockerd_here.until(
            self.answers, words=lambda: (self.folder / "registry.log").read_text()[-1000:]
        )

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((self.address, self.port)) == 0

    def trust(self, port: int) -> None:
        """Let daemons trust the certificate at this port, too."""
        trusted = Path("/etc/docker/certs.d") / f"{self.address}:{port}"
        trusted.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.folder / "cert.pem", trusted / "ca.crt")

    def distrust(self, port: int) -> None:
        shutil.rmtree(Path("/etc/docker/certs.d") / f"{self.address}:{port}", ignore_errors=True)

    def stop(self) -> None:
        self.distrust(self.port)
        if self.process is not None:
            self.process.terminate()
            self.process.wait(90)

    def login(self, here: Daemon, config: Path, port: int = 0) -> None:
        name = f"{self.address}:{port or self.port}"
        argv = [
            "docker",
            "--config",
            str(config),
            "-H",
            here.host,
            "login",
            "-u",
            USER,
            "--password-stdin",
            name,
        ]
        subprocess.run(argv, input=PASSWORD.encode(), check=True, capture_output=True)

    def login_at(self, config: Path, port: int) -> None:
        """As `login`, at a port where nobody answers yet."""
        config.mkdir()
        word = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        (config / "config.json").write_text(
            json.dumps({"auths": {f"{self.address}:{port}": {"auth": word}}})
        )

    def push(self, here: Daemon, image: str, name: str, config: Path) -> str:
        """The image's name in the registry; the daemon has it no more."""
        there = f"{self.name}/{name}"
        here.docker("tag", image, there)
        argv = ["docker", "--config", str(config), "-H", here.host, "push", there]
        pushed = subprocess.run(argv, check=True, capture_output=True, text=True)
        here.docker("rmi", there)
        self.digest = next(word for word in pushed.stdout.split() if word.startswith("sha256:"))
        return there


class HalfRegistry(http.server.BaseHTTPRequestHandler):
    """Answers as the image's name says: breaks off in its one layer, or with an HTTP status."""

    protocol_version = "HTTP/1.1"
    layer = os.urandom(300_000)

    def do_GET(self) -> None:
        layer = f"sha256:{hashlib.sha256(self.layer).hexdigest()}"
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "rootfs": {"type": "layers", "diff_ids": [layer]},
            }
        )
        of_config = f"sha256:{hashlib.sha256(config.encode()).hexdigest()}"
        kind = "application/vnd.docker.distribution.manifest.v2+json"
        image = "application/vnd.docker"
        parts = {
            "config": {
                "mediaType": f"{image}.container.image.v1+json",
                "size": len(config),
                "digest": of_config,
            },
            "layers": [
                {
                    "mediaType": f"{image}.image.rootfs.diff.tar.gzip",
                    "size": len(self.layer),
                    "digest": layer,
                }
            ],
        }
        status = re.search(r"/status-(\d+)/manifests/", self.path)
        self.send_response(int(status[1]) if status else 200)
        if status and status[1] == "404":
            error = {"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}
            self.send_whole(json.dumps({"errors": [error]}).encode(), "application/json")
        elif "/manifests/" in self.path:
            self.send_whole(
                json.dumps({"schemaVersion": 2, "mediaType": kind, **parts}).encode(), kind
            )
        elif layer in self.path:
            self.send_header("Content-Length", str(len(self.layer)))
            self.end_headers()
            self.wfile.write(self.layer[:100_000])
            self.close_connection = True
        else:
            self.send_whole(config.encode(), "application/json")

    def do_HEAD(self) -> None:
        self.do_GET()

    def send_whole(self, body: bytes, kind: str) -> None:
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@contextmanager
def half_registry(host: str = "127.0.0.1", port: int = 0) -> Generator[str]:
    """Its address."""
    server = http.server.ThreadingHTTPServer((host, port), HalfRegistry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()

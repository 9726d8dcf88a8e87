"""Connections to a daemon: its socket, its certificates."""

from __future__ import annotations

import ast
import socket
import subprocess
from pathlib import Path

import pytest

import tao_sdk.transports
from tao_sdk.model.errors import Unreachable
from tao_sdk.transports.dockerd import Address, Daemon
from tao_sdk.transports.dockerd_http import connect_to, tls_context


def test_a_socket_path_is_taken_as_the_docker_command_takes_it(tmp_path: Path) -> None:
    for url in (f"unix://{tmp_path}/s", f"unix://{str(tmp_path)[1:]}/s"):
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(tmp_path / "s"))
            with pytest.raises(Unreachable, match="refused"):
                Daemon(Address(url)).get("/info")
        (tmp_path / "s").unlink()


@pytest.mark.parametrize(
    ("address", "advice"),
    [
        (
            Address("tcp://127.0.0.1:1", named_by="DOCKER_HOST"),
            "DOCKER_HOST names it: correct that",
        ),
        (Address("tcp://127.0.0.1:1"), "Start the daemon there."),
        (Address("unix:///no/such.sock"), "Start Docker, or set DOCKER_HOST"),
    ],
)
def test_what_names_a_daemon_that_does_not_answer_is_said(address: Address, advice: str) -> None:
    with pytest.raises(Unreachable, match=f"at {address.url} cannot be reached") as told:
        Daemon(address).get("/info")
    assert told.value.next.startswith(advice)


def test_a_pipe_of_windows_is_told_as_that() -> None:
    with pytest.raises(Unreachable) as told:
        Daemon(Address("npipe:////./pipe/docker_engine")).get("/info")
    assert "only supported on Windows" in told.value.why


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-passout", "pass:hidden"]
    names = ["-subj", "/CN=x", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*argv, *names], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "ca.pem").write_bytes((tmp_path / "cert.pem").read_bytes())
    return tmp_path


def test_the_password_of_a_key_is_never_asked_for(certificates: Path) -> None:
    with pytest.raises(OSError, match="private key is encrypted"):
        tls_context(str(certificates), verify=True)
    with pytest.raises(Unreachable, match="cannot be reached") as told:
        Daemon(Address("tcp://127.0.0.1:1", str(certificates))).get("/info")
    assert "private key is encrypted" in told.value.why


@pytest.mark.slow
def test_a_daemon_is_trusted_by_its_own_authority_alone(certificates: Path) -> None:
    make = ["openssl", "rsa", "-passin", "pass:hidden", "-in", "key.pem", "-out", "key.pem"]
    subprocess.run(make, cwd=certificates, check=True, capture_output=True)
    trusts = tls_context(str(certificates), verify=True)
    assert len(trusts.get_ca_certs()) == 1 and trusts.check_hostname
    assert connect_to("https://127.0.0.1:1", str(certificates), verify=False)


def test_the_transports_use_public_names_of_other_libraries_only() -> None:
    for file in Path(tao_sdk.transports.__path__[0]).glob("*.py"):
        private = [
            f"{file.name}:{node.lineno} {ast.unparse(node)}"
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.Attribute)
            and node.attr.startswith("_")
            and not node.attr.endswith("__")
            and ast.unparse(node.value) not in ("self", "cls")
        ]
        assert private == []

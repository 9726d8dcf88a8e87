"""How ssh is started, and the names of hosts that it takes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest

from tao_sdk.transports.ssh_client import (
    forget_command,
    last_line,
    login_flags,
    split_address,
    start_ssh,
    typed_target,
)


@pytest.mark.parametrize(
    ("host", "parts"),
    [
        ("login", ("login", "")),
        ("login:2222", ("login", "2222")),
        ("[::1]:22", ("::1", "22")),
        ("::1", ("::1", "")),
    ],
)
def test_an_address_is_a_name_and_perhaps_a_port(host: str, parts: tuple[str, str]) -> None:
    assert split_address(host) == parts


def test_the_ssh_of_the_callers_path_is_started_with_his_environment(tmp_path: Path) -> None:
    program = tmp_path / "ssh"
    program.write_text('#!/bin/sh\necho "$0 $1 $WORD"\n')
    program.chmod(0o755)
    with tempfile.TemporaryFile() as words:
        environ = {"PATH": str(tmp_path), "WORD": "told"}
        started = start_ssh(["-V"], DEVNULL, PIPE, words, environ)
        assert started.communicate()[0].decode() == f"{program} -V told\n"


def test_without_an_ssh_the_start_fails(tmp_path: Path) -> None:
    with tempfile.TemporaryFile() as words, pytest.raises(OSError, match="ssh"):
        start_ssh(["-V"], DEVNULL, DEVNULL, words, {"PATH": str(tmp_path)})


def test_a_login_says_only_what_is_set() -> None:
    assert login_flags("", "") == []
    assert login_flags("me", "2222", config="/c") == ["-F", "/c", "-l", "me", "-p", "2222"]


def test_a_command_to_run_by_hand_names_user_host_and_port_as_a_shell_takes_them() -> None:
    assert typed_target("", "moon", "") == "moon"
    assert typed_target("a b", "moon", "2222") == "-p 2222 'a b@moon'"
    assert forget_command("moon", "22") == "ssh-keygen -R moon"
    assert forget_command("moon", "2222") == "ssh-keygen -R '[moon]:2222'"


def test_the_last_line_of_nothing_is_nothing() -> None:
    assert (last_line(""), last_line("a\nb \n")) == ("", "b")

"""Scripts on a login node: one connection for all, healed when it is lost, and every way in which a
log-in can fail.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from support.servers import sshd_here
from support.servers.silent_server import silent_server
from support.servers.sshd_here import ME, Sshd
from support.waiting import until
from tao_sdk.model.errors import CredentialError, Unreachable
from tao_sdk.transports import ssh
from tao_sdk.transports.ssh import HostKeyChanged, Login, LoginSettings, NotOpen, Ssh


@pytest.fixture
def start() -> Iterator[Callable[..., Sshd]]:
    """Starts an sshd with further settings. Its folder has a short path: pytest's own is long."""
    sshd_here.need()
    folder = Path(tempfile.mkdtemp(prefix="tao-sshd-"))
    begun: list[Sshd] = []

    def begin(*settings: str) -> Sshd:
        begun.append(Sshd(folder / str(len(begun)), settings).begin())
        return begun[-1]

    yield begin
    for each in begun:
        each.stop()
    wait_until_closed(folder)
    shutil.rmtree(folder, ignore_errors=True)


def wait_until_closed(folder: Path) -> None:
    """The connections' own ends notice that the other side is gone."""
    for _ in range(200):
        if not any(ssh.is_listening(str(path)) for path in folder.rglob("*") if path.is_socket()):
            return
        time.sleep(0.02)


@pytest.fixture
def sshd(start: Callable[..., Sshd]) -> Sshd:
    return start()


def test_a_script_reads_its_input_and_answers_with_its_output_words_and_code(sshd: Sshd) -> None:
    answer = Ssh(sshd.login()).run("cat; echo words >&2; exit 7", b"\0given\xff")
    assert (answer.rc, answer.out, answer.words, answer.host) == (7, b"\0given\xff", "words", "one")


def test_a_script_that_ends_with_255_is_not_taken_for_a_failure_of_ssh(sshd: Sshd) -> None:
    assert Ssh(sshd.login()).run("echo out; exit 255").rc == 255


def test_all_scripts_of_all_clients_share_one_connection(sshd: Sshd) -> None:
    for _ in range(3):
        client = Ssh(sshd.login())
        assert [client.run("echo $PPID").rc for _ in range(3)] == [0] * 3
    assert sshd.logins() == 1


def test_what_a_profile_prints_is_no_part_of_the_answer(start: Callable[..., Sshd]) -> None:
    noisy = start(
        'ForceCommand echo Welcome; printf "no newline"; sh -c '
        '"$SSH_ORIGINAL_COMMAND"; echo goodbye'
    )
    assert Ssh(noisy.login()).run("printf mine").out == b"mine"


def test_neither_the_script_nor_its_input_shows_in_a_command_line(
    sshd: Sshd, tmp_path: Path
) -> None:
    client, word = Ssh(sshd.login()), token_hex(8)
    begun, seen = tmp_path / "begun", tmp_path / "seen"
    thread = threading.Thread(
        target=client.run,
        args=(
            f"echo {word}-name >/dev/null; cat >/dev/null; touch {begun}; "
            f"until [ -e {seen} ]; do sleep 0.05; done",
            f"{word}-value".encode(),
        ),
    )
    thread.start()
    until(begun.exists)
    shown = b"".join(map(command_line, Path("/proc").iterdir()))
    seen.touch()
    thread.join()
    assert word.encode() not in shown


def command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def test_a_connection_that_was_killed_is_replaced_once_by_many_who_need_it(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "PATIENCE", 300.0)  # a slow machine's answer is not doubted
    client = Ssh(sshd.login())
    client.run("true")
    sshd.drop()
    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(lambda _: Ssh(sshd.login()).run("echo here").out, range(20)))
    assert answers == [b"here\n"] * 20
    assert sshd.logins() == 2


def test_a_connection_that_has_replaced_a_lost_one_is_left_alone_however_busy_it_is(
    sshd: Sshd,
) -> None:
    class Late(Ssh):
        """Hears that its connection is lost when another client has opened the next one, of which
        a trial hears nothing.
        """

        lost = False

        def _run_over(
            self, host: str, sock: str, script: str, *more: Any, **how: Any
        ) -> ssh.Answer:
            if script == ":":
                raise ssh.Lost("no answer")
            if self.lost:
                return super()._run_over(host, sock, script, *more, **how)
            self.lost = True
            sshd.drop()
            until(lambda: not ssh.is_listening(sock))
            Ssh(sshd.login()).run("true")
            raise ssh.Lost("the connection was lost")

    Ssh(sshd.login()).run("true")
    assert Late(sshd.login()).run("echo here").out == b"here\n"
    assert sshd.logins() == 2


def test_a_socket_that_nobody_answers_at_is_healed(sshd: Sshd) -> None:
    client = Ssh(sshd.login())
    path = client.socket_path("one")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)
    assert Path(path).is_socket()
    assert client.run("echo here").out == b"here\n"


def test_a_host_that_allows_few_sessions_serves_many_over_one_connection(
    start: Callable[..., Sshd],
) -> None:
    small = start("MaxSessions 2")
    Ssh(small.login()).run("true")
    with ThreadPoolExecutor(12) as threads:
        answers = list(
            threads.map(lambda n: Ssh(small.login()).run(f"sleep 0.05; echo {n}").out, range(12))
        )
    assert answers == [b"%d\n" % n for n in range(12)]
    assert small.logins() == 1


def test_many_scripts_wait_for_each_other_and_are_never_more_than_the_sessions(sshd: Sshd) -> None:
    count = f"ls {sshd.folder}/busy | wc -l"
    (sshd.folder / "busy").mkdir()
    met = f"[ $({count}) -ge 2 ] || [ -e {sshd.folder}/met ]"
    script = (
        f"touch {sshd.folder}/busy/$$; until {met}; do sleep 0.05; done; touch {sshd.folder}/met; "
        f"sleep 0.1; {count}; rm {sshd.folder}/busy/$$"
    )
    with ThreadPoolExecutor(24) as threads:
        seen = [
            int(answer.out)
            for answer in threads.map(lambda _: Ssh(sshd.login()).run(script), range(24))
        ]
    assert 2 <= max(seen) <= ssh.SESSIONS
    assert sshd.logins() == 1


def waits_for(path: Path) -> str:
    return f"until [ -e {path} ]; do sleep 0.05; done"


def test_a_connection_that_is_full_is_left_to_those_who_use_it(
    start: Callable[..., Sshd], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "PROBE_SECONDS", 60.0)
    small = start("MaxSessions 2")
    begun, go = small.folder / "begun", small.folder / "go"
    script = f"touch {begun}; {waits_for(go)}; echo done"
    with ThreadPoolExecutor(1) as threads:
        used = threads.submit(Ssh(small.login()).run, script)
        until(begun.exists)
        with pytest.raises(Unreachable, match="no answer within"):
            Ssh(small.login()).run(waits_for(go), seconds=1)
        go.touch()
        assert used.result().out == b"done\n"
    assert small.logins() == 1


def test_a_connection_that_is_full_of_scripts_that_were_given_up_is_replaced(
    start: Callable[..., Sshd],
) -> None:
    small = start("MaxSessions 1")
    go = small.folder / "go"
    with pytest.raises(Unreachable, match="no answer within"):
        Ssh(small.login()).run(waits_for(go), seconds=1)
    assert Ssh(small.login()).run("echo here").out == b"here\n"
    go.touch()


def test_a_script_whose_answer_is_lost_is_told_as_that(sshd: Sshd) -> None:
    with pytest.raises(Unreachable, match="one: "):
        Ssh(sshd.login()).run(
            "echo half; kill -9 $(ps -o ppid= -p $PPID) $PPID $$; sleep 5", seconds=10
        )


def test_a_script_that_takes_too_long_is_given_up_and_the_connection_stays(sshd: Sshd) -> None:
    client = Ssh(sshd.login())
    with pytest.raises(Unreachable, match="no answer within"):
        client.run("sleep 60", seconds=0.5)
    assert client.run("echo here").out == b"here\n"
    assert sshd.logins() == 1


def test_a_connection_that_hangs_is_closed_and_another_opened(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "PROBE_SECONDS", 0.5)
    client = Ssh(sshd.login())
    client.run("true")
    hung = sshd.connections()
    for pid in hung:
        os.kill(pid, 19)
    try:
        with pytest.raises(Unreachable):
            client.run("true", seconds=0.5)
        assert client.run("echo here", seconds=60).out == b"here\n"
    finally:
        for pid in hung:
            os.kill(pid, 9)


def test_a_connection_that_falls_silent_is_replaced_before_the_script_s_time_is_over(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Ssh(sshd.login())
    client.run("true")
    monkeypatch.setattr(ssh, "PATIENCE", 1.0)
    monkeypatch.setattr(ssh, "ANSWER_SECONDS", 3.0)
    hung = sshd.connections()
    for pid in hung:
        os.kill(pid, signal.SIGSTOP)
    try:
        assert client.run("echo here", seconds=100_000).out == b"here\n"
    finally:
        for pid in hung:
            with suppress(ProcessLookupError):  # it may have ended with the connection
                os.kill(pid, signal.SIGKILL)


def test_a_slow_script_on_a_host_that_answers_is_waited_for(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Ssh(sshd.login())
    client.run("true")
    monkeypatch.setattr(ssh, "PATIENCE", 0.01)  # the answer to the probe comes later, too
    monkeypatch.setattr(ssh, "ANSWER_SECONDS", 300.0)
    started: list[Sequence[str]] = []
    start_ssh = ssh.start_ssh

    def count_and_start(argv: Sequence[str], *more: Any) -> Any:
        started.append(argv)
        return start_ssh(argv, *more)

    monkeypatch.setattr(ssh, "start_ssh", count_and_start)
    assert client.run("cat; sleep 1; echo there", stdin=b"all ").out == b"all there\n"
    assert len(started) == 2  # the script and one probe
    assert sshd.logins() == 1


def test_a_host_that_says_nothing_is_waited_for_once(sshd: Sshd) -> None:
    with silent_server() as silent:
        client = Ssh(sshd.login(silent.address, connect_seconds=1))
        for _ in range(3):
            with pytest.raises(Unreachable):
                client.run("true")
        assert len(silent.taken) == 1


def test_a_master_that_ends_late_leaves_the_next_connection_alone(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "PROBE_SECONDS", 0.5)
    client = Ssh(sshd.login())
    client.run("true")
    old, carrying = master_of(client), sshd.connections()
    os.kill(old, signal.SIGSTOP)
    try:
        with pytest.raises(Unreachable):
            client.run("true", seconds=0.5)
        monkeypatch.undo()
        assert client.run("echo here", seconds=120).out == b"here\n"
    finally:
        os.kill(old, signal.SIGCONT)
        for pid in carrying:
            with suppress(ProcessLookupError):  # it may have ended with the master
                os.kill(pid, signal.SIGKILL)
    until(lambda: not command_line(Path(f"/proc/{old}")))
    assert client.run("echo still here").out == b"still here\n"
    assert sshd.logins() == 2


def master_of(client: Ssh) -> int:
    """The process that holds the connection open."""
    argv = ["ssh", "-S", client.socket_path("one"), "-O", "check", "one"]
    words = subprocess.run(argv, check=True, capture_output=True, text=True).stderr
    return int(words.partition("pid=")[2].partition(")")[0])


def test_the_next_login_host_answers_when_the_first_refuses_and_at_every_call_anew(
    start: Callable[..., Sshd],
) -> None:
    first, second = start(), start()
    config = first.folder / "ssh_config"
    text = second.folder.joinpath("ssh_config").read_text().replace("Host one", "Host other")
    trusted = second.folder.joinpath("known_hosts").read_text().replace("one ", "other ")
    config.write_text(
        text.split("Host two")[0].replace("HostKeyAlias one", "HostKeyAlias other")
        + config.read_text()
    )
    with first.folder.joinpath("known_hosts").open("a") as known:
        known.write(trusted)
    shutil.copy(first.folder / "user.pub", second.folder / "authorized")
    client = Ssh(first.login("one", "other"))
    assert client.run("true").host == "one"
    first.stop()
    assert client.run("true").host == "other"
    first.start()
    second.stop()
    assert client.run("true").host == "one"
    second.start()


def test_a_host_that_takes_connections_and_says_nothing_is_passed_over(sshd: Sshd) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        client = Ssh(sshd.login(f"127.0.0.1:{mute.getsockname()[1]}", "one", connect_seconds=1))
        assert client.run("true").host == "one"


def test_when_no_host_answers_every_one_is_named_with_ssh_s_words(sshd: Sshd) -> None:
    settings = LoginSettings(hosts="MOON_HOST", second_host="name a second one")
    with pytest.raises(
        Unreachable, match=r"127\.0\.0\.1:9.*[Cc]onnection refused.*no\.such\.host.*resolve"
    ) as told:
        Ssh(sshd.login("127.0.0.1:9", "no.such.host.invalid", settings=settings)).run("true")
    assert (
        told.value.next
        == "Check MOON_HOST, the network and the VPN; name a second one. Check MOON_HOST."
    )


def test_a_changed_host_key_stops_everything_and_names_the_two_commands_that_settle_it(
    sshd: Sshd,
) -> None:
    Ssh(sshd.login()).run("true")
    sshd.stop()
    sshd.make_key("host")
    sshd.start()
    with pytest.raises(HostKeyChanged) as told:
        Ssh(sshd.login("one", "two")).run("true")
    forget, connect = told.value.next.removeprefix("If the new key is right, run: ").split(
        " and then: "
    )
    assert sshd.logins() == 1
    subprocess.run(forget, shell=True, check=True, capture_output=True)
    asks = connect.replace("ssh ", f"ssh -F {sshd.folder}/ssh_config -o BatchMode=yes ", 1)
    subprocess.run(asks, shell=True, check=True, capture_output=True)
    assert Ssh(sshd.login()).run("echo trusted").out == b"trusted\n"


def test_a_host_whose_key_is_not_known_is_refused_with_the_command_that_adds_it(sshd: Sshd) -> None:
    (sshd.folder / "known_hosts").write_text("")
    with pytest.raises(Unreachable, match="not known here") as told:
        Ssh(sshd.login()).run("true")
    assert "ssh-keyscan -H " in told.value.next
    with pytest.raises(Unreachable) as told:
        Ssh(sshd.login(f"localhost:{sshd.port}")).run("true")
    assert f"ssh-keyscan -p {sshd.port} -H localhost " in told.value.next
    assert sshd.logins() == 0


def test_a_log_in_that_is_denied_says_how_to_get_in(sshd: Sshd) -> None:
    (sshd.folder / "authorized").write_text("")
    with pytest.raises(Unreachable, match="Permission denied") as told:
        Ssh(sshd.login(settings=LoginSettings(key="MOON_KEY", reuse_only="MOON_REUSE"))).run("true")
    assert told.value.next == (
        f"Set MOON_KEY=/path/to/private_key, put its public half there: ssh-copy-id -i ~/.ssh/id_ed25519.pub {ME}@one, "
        f"and try: ssh -o BatchMode=yes {ME}@one true. With a second factor: open a connection by hand and set MOON_REUSE=1"
    )


def test_a_log_in_that_no_setting_decides_is_told_without_one(sshd: Sshd) -> None:
    (sshd.folder / "authorized").write_text("")
    with pytest.raises(Unreachable) as told:
        Ssh(sshd.login()).run("true")
    assert told.value.next == (
        f"Put the public half of your key there: ssh-copy-id -i ~/.ssh/id_ed25519.pub {ME}@one, "
        f"and try: ssh -o BatchMode=yes {ME}@one true"
    )


def test_every_trouble_has_an_advice_and_names_the_host() -> None:
    client = Ssh(Login(("moon",)))
    for words in ("Host key verification failed.", "bad permissions", "Permission denied (publickey).", "odd words",
                  "Could not resolve hostname", "Connection refused", "too long for Unix domain socket"):  # fmt: skip
        trouble = client.explain_trouble("moon", words)
        assert trouble.what == f"moon: {words}"
        assert trouble.why
        assert trouble.next
        assert "{" not in str(trouble)


def test_many_who_wait_for_a_log_in_that_fails_have_its_answer(sshd: Sshd) -> None:
    (sshd.folder / "authorized").write_text("")

    def refused(_: int) -> bool:
        with pytest.raises(Unreachable, match="Permission denied"):
            Ssh(sshd.login()).run("true")
        return True

    with ThreadPoolExecutor(12) as threads:
        assert all(threads.map(refused, range(12)))
    assert (
        sshd.log.count("Connection from") - 1 < 12 / 2
    )  # one is the test's own look whether it listens


def test_a_key_that_others_can_read_is_refused_and_left_as_it_is(sshd: Sshd) -> None:
    key = sshd.folder / "user"
    key.chmod(0o644)
    with pytest.raises(CredentialError, match="mode 0644") as told:
        Ssh(sshd.login(key=str(key))).run("true")
    assert told.value.next == f"Run: chmod 600 {key}"
    assert key.stat().st_mode & 0o777 == 0o644


def test_a_key_that_is_not_there_is_named(sshd: Sshd) -> None:
    with pytest.raises(CredentialError, match="/no/such/key"):
        Ssh(sshd.login(key="/no/such/key")).run("true")


def test_the_key_that_is_named_is_used_and_no_other(sshd: Sshd) -> None:
    sshd.make_key("mine")
    key = sshd.folder / "mine"
    config = sshd.folder / "ssh_config"
    config.write_text(
        "\n".join(line for line in config.read_text().splitlines() if "IdentityFile" not in line)
    )
    with pytest.raises(Unreachable, match="Permission denied"):
        Ssh(sshd.login(key=str(key))).run("true")
    shutil.copy(f"{key}.pub", sshd.folder / "authorized")
    assert Ssh(sshd.login(key=str(key))).run("true").rc == 0


def test_a_key_in_the_agent_is_used(sshd: Sshd) -> None:
    agent = sshd.folder / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(agent)], stdout=subprocess.DEVNULL)
    try:
        while not agent.exists():
            time.sleep(0.02)
        environ = {**sshd.login().environ, "SSH_AUTH_SOCK": str(agent)}
        subprocess.run(["ssh-add", "-q", str(sshd.folder / "user")], env=environ, check=True)
        config = sshd.folder / "ssh_config"
        config.write_text(
            "\n".join(
                line for line in config.read_text().splitlines() if "IdentityFile" not in line
            )
        )
        assert Ssh(sshd.login(environ=environ)).run("true").rc == 0
    finally:
        process.terminate()
        process.wait()


def test_a_jump_host_of_the_users_configuration_is_used(sshd: Sshd) -> None:
    with (sshd.folder / "ssh_config").open("r+") as config:
        text = config.read()
        config.seek(0)
        config.write(
            (
                f"Host behind\n  HostName 127.0.0.1\n  Port {sshd.port}\n  "
                "HostKeyAlias two\n  ProxyJump one\n"
            )
            + text
        )
    client = Ssh(sshd.login("behind"))
    assert [client.run("true").rc for _ in range(2)] == [0, 0]
    assert sshd.logins() == 2


def test_host_and_port_may_stand_in_the_list(sshd: Sshd) -> None:
    key = (sshd.folder / "host.pub").read_text().rsplit(" ", 1)[0]
    with (sshd.folder / "known_hosts").open("a") as known:
        known.write(f"[127.0.0.1]:{sshd.port} {key}\n")
    assert Ssh(sshd.login(f"127.0.0.1:{sshd.port}")).run("true").rc == 0


def test_long_paths_of_home_and_state_do_not_lengthen_the_sockets(sshd: Sshd) -> None:
    long = sshd.folder / ("x" * 100) / ("y" * 100)
    long.mkdir(parents=True)
    environ = {**sshd.login().environ, "HOME": str(long), "XDG_RUNTIME_DIR": str(long)}
    client = Ssh(sshd.login(environ=environ))
    try:
        assert client.run("echo here").out == b"here\n"
        assert len(client.socket_path("one")) <= ssh.LONGEST_SOCKET
    finally:
        sshd.drop()


def test_the_sockets_lie_in_a_folder_that_nobody_else_can_enter(sshd: Sshd) -> None:
    client = Ssh(sshd.login())
    client.run("true")
    assert client.folder.stat().st_mode & 0o777 == 0o700
    assert client.folder.is_relative_to(sshd.folder)


def test_a_folder_that_someone_else_has_opened_to_all_is_not_used(sshd: Sshd) -> None:
    runtime = sshd.folder / "run"
    runtime.mkdir(mode=0o700)
    (runtime / f"tao-ssh-{os.geteuid()}").mkdir()
    (runtime / f"tao-ssh-{os.geteuid()}").chmod(0o777)
    client = Ssh(sshd.login())
    try:
        assert client.run("true").rc == 0
        assert not client.folder.is_relative_to(runtime)
    finally:
        sshd.drop()


@pytest.mark.parametrize("ours_came_first", [False, True])
def test_where_connections_are_opened_by_hand_none_is_opened_by_us(
    sshd: Sshd, ours_came_first: bool
) -> None:
    if ours_came_first:
        leave_ended_connection(sshd)
    login, earlier = sshd.login(reuse_only=True), sshd.logins()
    with pytest.raises(NotOpen) as told:
        Ssh(login).run("true")
    assert sshd.logins() == earlier
    by_hand = told.value.next.removeprefix("Open one: ").replace(
        "ssh ", f"ssh -F {sshd.folder}/ssh_config ", 1
    )
    subprocess.run(by_hand, shell=True, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    assert Ssh(login).run("echo here").out == b"here\n"
    assert sshd.logins() == earlier + 1


def leave_ended_connection(sshd: Sshd) -> None:
    client = Ssh(sshd.login())
    client.run("true")
    sshd.drop()
    until(lambda: not ssh.is_listening(client.socket_path("one")))


def test_a_connection_that_the_users_configuration_names_is_used_by_those_who_open_none(
    sshd: Sshd,
) -> None:
    with (sshd.folder / "ssh_config").open("a") as config:
        config.write(f"  ControlPath {sshd.folder}/cm-%C\n")
    subprocess.run(
        ["ssh", "-F", str(sshd.folder / "ssh_config"), "-fNM", "-l", ME, "one"],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    assert Ssh(sshd.login(reuse_only=True)).run("echo here").out == b"here\n"
    assert sshd.logins() == 1


def test_ten_megabytes_pass_both_ways_unchanged(sshd: Sshd) -> None:
    data = os.urandom(10_000_000)
    assert Ssh(sshd.login()).run("cat", data).out == data

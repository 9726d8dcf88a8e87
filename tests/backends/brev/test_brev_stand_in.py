"""The stand-in `brev`: it prints, asks and ends as the real program does, and is never kinder."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.brev.account import LIST_RELEASE, OBJECT_RELEASE, Account
from support.waiting import until

GOLDEN = Path(__file__).parent / "golden"
RELEASES = {LIST_RELEASE: "list", OBJECT_RELEASE: "object"}


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return Account.open(tmp_path / "brev")


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_lists_instances_in_its_form(tmp_path: Path, release: str) -> None:
    account = Account.open(tmp_path / "brev", release)
    form = RELEASES[release]
    assert account.brev("ls", "--json").stdout == golden(f"ls-none-{form}.json")
    account.take_time(DEPLOYING=3600)
    account.brev("create", "box", "--type", "g6e.xlarge", "--detached")
    with account.plane.changing() as state:
        state["instances"][0]["id"] = "abc123xyz"
    assert account.brev("ls", "--json").stdout == golden(f"ls-{form}.json")
    assert account.brev("ls", "orgs", "--json").stdout == golden("orgs.json")
    assert account.brev("search", "cpu", "--json").stdout == golden("search-cpu.json")
    version = account.brev("--version", "--no-check-latest")
    assert (version.returncode, version.stdout) == (0, f"Current Version: v{release}\n")


def golden(name: str) -> str:
    return (GOLDEN / name).read_text()


def test_an_instance_lives_from_deploying_to_gone(account: Account) -> None:
    account.take_time(DEPLOYING=3600, DELETING=3600)
    made = account.brev("create", "box", "--type", "g6e.xlarge", "--detached")
    assert (made.returncode, made.stdout) == (0, "box\n")
    assert statuses(account) == ["DEPLOYING"]
    account.take_time(DEPLOYING=0)
    assert statuses(account) == ["RUNNING"]
    for command, status in (("stop", "STOPPED"), ("start", "RUNNING"), ("delete", "DELETING")):
        assert account.brev(command, "box").returncode == 0
        assert statuses(account) == [status]
    again = account.brev("create", "box", "--type", "g6e.xlarge")
    assert (again.returncode, again.stderr) == (1, "duplicate workspace with name box\n")
    account.take_time(DELETING=0)
    assert statuses(account) == []


def statuses(account: Account) -> list[str]:
    rows = json.loads(account.brev("ls", "--json").stdout)["workspaces"]
    return [row["status"] for row in rows or []]


# name -> (what goes wrong, the words of the call, its exit code, what it says, instances after it)
TROUBLES: dict[str, tuple[Callable[[Account], object], list[str], int, str, int]] = {
    "a reply that is lost leaves an instance": (
        lambda account: account.fate(lost=True),
        ["create", "box", "--type", "g6e.xlarge"], 1, "unexpected EOF", 1,
    ),
    "a killed program leaves an instance": (
        lambda account: account.fate(killed=True),
        ["create", "box", "--type", "g6e.xlarge"], -signal.SIGKILL, "", 1,
    ),
    "an instance that fails is no failure of create": (
        lambda account: account.fate(end="FAILURE"),
        ["create", "box", "--type", "g6e.xlarge"], 0, "", 1,
    ),
    "a refusal has the account's words": (
        lambda account: account.fate(refused="quota exceeded"),
        ["create", "box", "--type", "g6e.xlarge"], 1, "quota exceeded\ncould only create 0/1", 0,
    ),
    "a type that is sold out is passed over": (
        lambda account: account.set(sold_out=["g6e.xlarge"]),
        ["create", "box", "--type", "g6e.xlarge,hyperstack_H100"], 0, "no capacity", 1,
    ),
    "an unknown type is refused": (
        lambda account: None,
        ["create", "box", "--type", "moon"], 1, "moon is not a recognized type", 0,
    ),
    "a flag of the documents is unknown": (
        lambda account: None, ["create", "box", "--cloud-cred-id", "x"], 1,
        "unknown flag: --cloud-cred-id", 0,
    ),
    "a command of the documents is unknown": (
        lambda account: None, ["orgs", "--json"], 1, 'unknown command "orgs"', 0,
    ),
    "delete knows no --yes": (
        lambda account: None, ["delete", "box", "--yes"], 1, "unknown flag: --yes", 0,
    ),
    "nobody can be started": (lambda account: None, ["start", "nobody"], 0, "", 0),
    "nobody cannot be deleted": (
        lambda account: None, ["delete", "nobody"], 1,
        "instance with id/name nobody not found", 0,
    ),
    "an expired token is no question": (
        lambda account: account.set(tokens=[]), ["ls"], 1, "unauthorized", 0,
    ),
    "an upstream failure is told": (
        lambda account: account.fail_next("ls", "502"), ["ls"], 1, "502", 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TROUBLES)
def test_what_goes_wrong_is_told_as_the_real_one_tells_it(account: Account, name: str) -> None:
    prepare, words, code, said, instances = TROUBLES[name]
    prepare(account)
    done = account.brev(*words)
    assert done.returncode == code
    assert said in done.stderr
    assert len(account.instances()) == instances


def test_whoever_is_logged_out_is_asked_on_stdout(account: Account) -> None:
    account.log_out()
    asked = account.brev("ls", "--json")
    assert (asked.returncode, asked.stdout.endswith("[Y/n]: ")) == (1, True)
    account.save_login({"access_token": "auto-login", "refresh_token": "session:device"})
    first, second = account.brev("ls", "--json"), account.brev("ls", "--json")
    assert first.stdout == f"no oauth found for token\n{second.stdout}"


def test_an_api_key_sees_all_of_its_organization(account: Account) -> None:
    account.take_time(DEPLOYING=3600)
    account.set(tokens=["session:device", "other:device"], api_keys={"bak-1": "org-1"})
    account.brev("create", "box", "--type", "g6e.xlarge", "--detached")
    account.save_login({"access_token": "access", "refresh_token": "other:device"})
    assert statuses(account) == []
    account.save_login({"api_key": "bak-1", "api_key_org_id": "org-1"})
    assert statuses(account) == ["DEPLOYING"]
    assert account.brev("ls", "orgs", "--json").stderr == "forbidden\n"


def test_names_are_read_from_any_input_but_a_device(account: Account) -> None:
    account.brev("create", "box", "--type", "g6e.xlarge", "--detached")
    account.take_time(DELETING=3600)
    assert account.brev("delete", stdin="box\n").stdout == "box\n"
    account.brev("ls", DO_NOT_TRACK="1")
    ended = [(each["words"], each["stdin"], each["telemetry"]) for each in account.calls()[-2:]]
    assert ended == [(["delete"], "pipe", True), (["ls"], "/dev/null", False)]


def test_a_command_that_fails_under_exec_runs_twice(account: Account, tmp_path: Path) -> None:
    account.brev("create", "box", "--type", "g6e.xlarge", "--detached")
    account.brev("refresh")
    ssh = tmp_path / "brev" / "bin" / "ssh"
    ssh.write_text(f'#!/bin/sh\necho "$5" >>{tmp_path}/ran\nexec sh -c "$5"\n')
    ssh.chmod(0o755)
    failed = account.brev("exec", "box", "exit 7")
    assert (failed.returncode, (tmp_path / "ran").read_text()) == (1, "exit 7\n" * 2)
    assert account.brev("exec", "box", "echo hello").stdout == "hello\nbox\n"


def test_ssh_reads_where_a_running_instance_is(account: Account) -> None:
    account.brev("create", "box", "--type", "g6e.xlarge", "--detached")
    account.brev("refresh")
    config = account.home / ".brev" / "ssh_config"
    words = ["ssh", "-F", str(config), "-G", "box-host"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert {"hostname 127.0.0.1", "requesttty true", "forwardagent yes"} <= set(shown.splitlines())
    assert (account.home / ".ssh" / "config").read_text() == f"Include {config}\n"


def test_two_commands_at_once_may_lose_the_login(account: Account) -> None:
    """The access token is renewed in place, without a lock."""

    def lost() -> bool:
        account.save_login({"access_token": "auto-login", "refresh_token": "session:device"})
        words = [account.folder / "bin" / "brev", "ls", "--json"]
        both = [
            subprocess.Popen(
                words, env=account.environ(), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )
            for _ in range(3)
        ]  # fmt: skip
        return any("logged out" in each.communicate()[0] for each in both)

    until(lost)


@pytest.mark.docker
@pytest.mark.parametrize("proxy", [False, True])
def test_a_running_instance_is_a_machine_that_ends_with_it(account: Account, proxy: bool) -> None:
    from support.brev import machines

    account.set(proxy=proxy)
    with machines.running(account) as there:
        account.brev("create", "box", "--type", "g6e.12xlarge", "--detached")
        machine = there.machine("box")
        account.brev("refresh")

        def on_the_box(command: str) -> subprocess.CompletedProcess[str]:
            config = str(account.home / ".brev" / "ssh_config")
            words = ["ssh", "-F", config, "-o", "ControlMaster=no", "-o", "ControlPath=none", "-T"]
            return subprocess.run([*words, "box", command], capture_output=True, text=True)

        run = "docker run -d --network none --gpus 2 --name it tao-test-busybox sleep 300"
        assert until(lambda: on_the_box("true").returncode == 0)
        assert on_the_box(run).returncode == 0, machine.docker("ps", "-a").stdout
        assert on_the_box("touch /etc/never").returncode != 0
        shown = json.loads(on_the_box("docker inspect it").stdout)[0]
        assert shown["HostConfig"]["DeviceRequests"][0]["Count"] == 2
        assert on_the_box("nvidia-smi").stdout.count("GPU-") == 4
        pid = shown["State"]["Pid"]
        assert pid > 0
        account.brev("delete", "box")
        until(lambda: not there.machines)
        assert on_the_box("true").returncode == 255

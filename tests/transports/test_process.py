"""Processes are known for good, looked at without being mistaken, and started with
nothing of ours.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.waiting import until
from tao_sdk.transports import process
from tao_sdk.transports.process import Identity, NotStarted


def known(pid: int) -> Identity:
    identity = process.identify(pid)
    assert identity is not None
    return identity


@pytest.fixture
def session() -> Iterator[Callable[[str], Identity]]:
    """Start shell text in a session of its own; all of it is killed in the end."""
    begun: list[subprocess.Popen[bytes]] = []

    def start(text: str) -> Identity:
        begun.append(subprocess.Popen(["/bin/bash", "-c", text], start_new_session=True))
        return known(begun[-1].pid)

    yield start
    for one in begun:
        for group in process.list_sessions().get(one.pid, ()):
            process.signal_group(group, signal.SIGKILL)
        one.wait()


def test_an_identity_survives_being_written_down() -> None:
    here = known(os.getpid())
    again = Identity.parse(str(here))
    assert again is not None
    assert again.alive
    assert str(again) == str(here)


@pytest.mark.parametrize("text", ["", "12", "12 34 boot", "x 1 boot 2"])
def test_a_record_that_was_cut_short_is_nobody(text: str) -> None:
    assert Identity.parse(text) is None


def test_another_process_with_the_same_id_is_not_mistaken_for_it() -> None:
    here = known(os.getpid())
    assert not Identity(here.pid, str(int(here.start) - 1), here.boot, here.space).alive


def test_a_process_of_another_boot_or_another_container_is_not_alive_here() -> None:
    here = known(os.getpid())
    assert not Identity(here.pid, here.start, "another-boot", here.space).alive
    assert not Identity(here.pid, here.start, here.boot, "1").alive


def test_a_zombie_has_ended() -> None:
    child = subprocess.Popen(["/bin/sleep", "30"])
    identity = known(child.pid)
    assert identity.alive
    os.kill(child.pid, signal.SIGKILL)
    until(lambda: identity.state == "Z")
    assert not identity.alive
    child.wait()
    assert identity.state == ""


def test_a_process_may_be_called_anything(tmp_path: Path) -> None:
    program = tmp_path / "a) Z 1 (b"
    shutil.copy("/bin/sleep", program)
    child = subprocess.Popen([program, "30"])
    try:
        assert known(child.pid).alive
    finally:
        child.kill()
        child.wait()


def test_a_stopped_process_is_alive_and_stopped(session: Callable[[str], Identity]) -> None:
    leader = session("exec sleep 30")
    os.kill(leader.pid, signal.SIGSTOP)
    until(lambda: leader.state in process.STOPPED)
    assert leader.alive


def test_what_a_leader_left_behind_is_still_its_group(session: Callable[[str], Identity]) -> None:
    leader = session("sleep 30 & exit 0")
    until(lambda: not leader.alive)
    assert process.living_groups(leader) == {leader.pid}
    process.kill(leader)
    until(lambda: not process.living_groups(leader))


def test_kill_reaches_groups_that_ignore_signals_and_groups_of_their_own(
    session: Callable[[str], Identity],
) -> None:
    leader = session("trap '' TERM; set -m; sleep 30 & sleep 30 & wait")
    until(lambda: len(process.living_groups(leader)) == 3)
    process.ask_to_end(leader)
    process.kill(leader)
    until(lambda: not process.living_groups(leader))


@pytest.mark.parametrize("kernel_lists_children", [True, False])
def test_children_in_sessions_of_their_own_are_found_and_no_others(
    session: Callable[[str], Identity],
    monkeypatch: pytest.MonkeyPatch,
    kernel_lists_children: bool,
) -> None:
    if not kernel_lists_children:
        monkeypatch.setattr(process, "_children_file", lambda *_: "/proc/nothing")
    parent = session("setsid sleep 60 & setsid bash -c 'sleep 60 & wait' & wait")
    stranger = session("sleep 60")
    until(lambda: len(process.find_departed(parent)) == 3)
    assert stranger.pid not in [one.pid for one in process.find_departed(parent)]
    assert process.find_departed(stranger) == []
    process.kill(parent)
    until(lambda: not parent.alive)


def test_what_belongs_to_one_session_is_found_without_reading_about_every_process(
    session: Callable[[str], Identity], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        pytest.skip("this kernel does not list the children of a process")
    strangers = [session("sleep 60") for _ in range(20)]
    one = session("sleep 60 & wait")
    until(lambda: len(process._session_members(one.pid)) == 2)  # pyright: ignore[reportPrivateUsage]
    read: list[int] = []
    stat = process._read_stat  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(process, "_read_stat", lambda pid: read.append(pid) or stat(pid))
    assert process.living_groups(one) == {one.pid}
    assert process.find_departed(one) == []
    assert not {stranger.pid for stranger in strangers} & set(read)


@pytest.mark.parametrize(
    ("end", "number"), [(process.ask_to_end, signal.SIGTERM), (process.kill, signal.SIGKILL)]
)
def test_one_that_is_to_begin_a_session_and_has_not_yet_is_ended_alone(
    end: Callable[[Identity], None], number: int
) -> None:
    child = subprocess.Popen(["sleep", "300"])
    end(known(child.pid))
    assert child.wait(90) == -number


def test_the_group_of_a_stranger_with_the_same_id_is_left_alone(
    session: Callable[[str], Identity],
) -> None:
    leader = session("exec sleep 30")
    stranger = Identity(leader.pid, str(int(leader.start) - 1), leader.boot, leader.space)
    process.kill(stranger)
    process.ask_to_end(stranger)
    process.signal_process(stranger, signal.SIGKILL)
    assert process.living_groups(stranger) == set()
    time.sleep(0.05)
    assert leader.alive


def test_output_is_what_a_program_prints_and_a_failure_is_in_its_words() -> None:
    assert process.output(["/bin/echo", "hello"], {}, 30) == "hello\n"
    with pytest.raises(NotStarted, match="driver not loaded"):
        process.output(["/bin/sh", "-c", "echo driver not loaded; exit 9"], {}, 30)


def test_a_program_that_hangs_is_given_up() -> None:
    with pytest.raises(NotStarted, match="did not answer within"):
        process.output(["/bin/sleep", "30"], {}, 0.2)

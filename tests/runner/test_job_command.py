"""The command: its bytes, its exit code, its signals, and everything it started."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tao_sdk
from support.waiting import until
from tao_sdk.script_runner import build_entrypoint

PYTHON = sys.executable
FORWARDED = ["TERM", "INT", "HUP", "USR1", "USR2", "QUIT"]


def python(code: str) -> str:
    import shlex

    return f"exec {PYTHON} -u -c {shlex.quote(code)}"


@pytest.mark.parametrize("code", [0, 1, 3, 125, 126, 127, 130, 255])
def test_the_exit_code_is_the_commands(jobs, code):
    ran = jobs.run(f"exit {code}")
    assert ran.code == code
    assert ran.named("ended")[0].facts["exit_code"] == code


@pytest.mark.parametrize("name", ["KILL", "TERM", "SEGV", "PIPE"])
def test_a_command_ended_by_a_signal_is_128_plus_its_number(jobs, name):
    number = getattr(signal, f"SIG{name}")
    ran = jobs.run(f"ulimit -c 0; kill -{name} $$")
    assert ran.code == 128 + number
    ended = ran.named("ended")[0].facts
    assert (ended["exit_code"], ended["signal"]) == (128 + number, number)


def test_bytes_are_unchanged_on_both_streams_and_kept_in_the_results(jobs):
    out = bytes(range(256)) * 3 + b"\r50%\r100%\r\n\xff\xfe"
    ran = jobs.run("cat > all; cat all; cat all >&2", stdin=out)
    assert (ran.out, ran.err) == (out, out)
    assert (jobs.results / ".tao" / "job.log").read_bytes().count(out) == 2


def test_a_hundred_megabytes_pass_in_flat_memory(jobs, tmp_path):
    code = (
        "import resource,subprocess,sys\np=subprocess.run(sys.argv[1:],stdout=open('/dev/null','w'))\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    text = build_entrypoint(command="head -c 100000000 /dev/zero")["command"]
    env = jobs.environment(None)
    peak = int(
        subprocess.run(
            [PYTHON, "-c", code, "bash", "-c", text], env=env, capture_output=True, check=True
        ).stdout
    )
    assert peak < 40_000  # KiB
    assert (jobs.results / ".tao" / "job.log").stat().st_size == 100_000_000


def test_stdin_is_the_callers(jobs):
    assert jobs.run("cat", stdin=b"line\n\x00\xff").out == b"line\n\x00\xff"


def test_a_reader_that_goes_away_does_not_end_the_command(jobs):
    text = build_entrypoint(command="seq 100000; echo done > finished", files={"x": ""})["command"]
    subprocess.run(
        ["bash", "-o", "pipefail", "-c", 'bash -c "$1" 2>/dev/null | head -n 1', "_", text],
        env=jobs.environment(None),
        check=True,
    )
    assert (jobs.results / "work" / "finished").read_text() == "done\n"
    assert (jobs.results / ".tao" / "job.log").read_bytes().endswith(b"\n100000\n")


def test_a_slow_reader_gets_every_byte_of_both_streams_after_the_command_has_ended(jobs):
    text = build_entrypoint(command="head -c 150000 /dev/zero; head -c 150000 /dev/zero >&2")[
        "command"
    ]
    process = subprocess.Popen(
        ["bash", "-c", text],
        env=jobs.environment(None),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    waits_for_a_reader(process.pid)
    out, err = process.communicate(timeout=300)
    assert (out.count(b"\0"), err.count(b"\0")) == (150_000, 150_000)


def test_the_command_line_is_in_no_event_and_no_log(jobs):
    ran = jobs.run("true --password hunter2; nonexistent-command 2>/dev/null")
    assert b"hunter2" not in ran.raw + (jobs.results / ".tao" / "job.log").read_bytes()


@pytest.mark.parametrize("name", FORWARDED)
def test_a_signal_reaches_the_command_which_may_end_as_it_likes(jobs, name):
    number = int(getattr(signal, f"SIG{name}"))
    job = jobs.start(
        python(
            "import signal,sys,time\n"
            f"signal.signal({number}, lambda *_: (print('got it'), sys.exit(7)))\n"
            "print('ready')\n"
            "while True: time.sleep(0.01)"
        )
    )
    job.until(b"ready\n")
    job.process.send_signal(number)
    ran = job.ended()
    assert ran.code == 7
    assert b"got it" in ran.out
    assert ran.stages[-1] == "done"


def test_a_signal_that_is_no_end_lets_the_command_go_on(jobs):
    job = jobs.start(
        python(
            "import signal,sys,time\nseen=[]\nsignal.signal(signal.SIGUSR1, lambda *_: seen.append(print('usr1')))\n"
            "print('ready')\nwhile not seen: time.sleep(0.01)\nprint('went on')"
        ),
        env={"TAO_GRACE": "0.05"},
    )
    job.until(b"ready\n")
    job.process.send_signal(signal.SIGUSR1)
    ran = job.ended()
    assert (ran.code, ran.out) == (0, b"ready\nusr1\nwent on\n")


def test_a_command_that_ignores_the_end_is_killed_after_the_grace_with_its_whole_group(jobs):
    job = jobs.start(
        "trap '' TERM; (echo child $BASHPID; echo ready; while :; do sleep 0.05; done) & "
        "while :; do sleep 0.05; done",
        env={"TAO_GRACE": "0.3"},
    )
    job.until(b"ready\n")
    child = int(job.seen.split()[1])
    job.process.terminate()
    ran = job.ended()
    assert ran.code == 137
    assert not alive(child)
    assert ran.manifest["exit_code"] == 137


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except FileNotFoundError:
        return False


def test_what_the_command_leaves_running_is_ended_with_it(jobs):
    ran = jobs.run("sleep 1000 & echo $!; exit 0")
    assert ran.code == 0
    assert not alive(int(ran.out))


def test_a_daemon_that_left_the_group_does_not_hold_the_job(jobs):
    apart = "until [ $(cut -d' ' -f6 /proc/$!/stat) = $! ]; do sleep 0.05; done"
    ran = jobs.run(f"setsid sleep 300 & echo $!; {apart}; exit 4")
    os.kill(int(ran.out), signal.SIGKILL)
    assert ran.code == 4


def test_a_daemon_that_writes_for_ever_does_not_hold_the_job(jobs):
    ran = jobs.run("setsid yes >&2 & echo $!; sleep 0.1; exit 4")
    assert ran.code == 4


def test_closed_standard_streams_do_not_harm_the_job(jobs, tmp_path):
    text = build_entrypoint(
        command=f"cat; echo out; echo err >&2; echo done > {tmp_path}/done; exit 6"
    )["command"]
    done = subprocess.run(
        ["bash", "-c", 'exec bash -c "$1" <&- >&- 2>&-', "_", text],
        env=jobs.environment(None),
        check=False,
    )
    assert done.returncode == 6
    assert (tmp_path / "done").read_text() == "done\n"


def test_a_job_killed_at_any_moment_of_its_start_can_be_started_again(jobs, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x").write_text("x")
    job = {
        "specs": {"in": str(tmp_path / "in"), "out": ""},
        "inputs": {"in": {"container_path": str(tmp_path / "deep" / "target")}},
        "outputs": ["out"],
        "files": {"a/b": "b" * 100_000, "c": "c"},
    }
    for moment in range(12):
        started = jobs.start("sleep 0.1", **job)
        time.sleep(moment * 0.004)
        started.process.kill()
        started.process.communicate()
    ran = jobs.run(
        "cat {config_path} c; cat $(dirname {config_path})/../../deep/target/x; wc -c < a/b", **job
    )
    assert (ran.code, ran.out[-9:]) == (0, b"cx100000\n"), ran.raw


def test_a_signal_before_the_command_ends_the_job_and_the_command_never_runs(jobs, tmp_path):
    """Unpacking waits on a full pipe: the runner is certainly before the command when the signal
    comes.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writer, b"x" * 4096):
            pass
    os.set_blocking(writer, True)
    text = build_entrypoint(command="echo never")["command"]
    process = subprocess.Popen(
        ["bash", "-c", text], env=jobs.environment(None), stdout=subprocess.PIPE, stderr=writer
    )
    waits_for_a_reader(process.pid)
    process.terminate()
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        told = stream.read()
    out, _ = process.communicate(timeout=300)
    assert (process.returncode, out) == (143, b"")
    assert b'"event": "ended"' in told


def waits_for_a_reader(pid: int) -> None:
    """Until the runner sleeps in a write."""
    process = Path(f"/proc/{pid}")
    until(
        lambda: (
            "pipe" in (process / "wchan").read_text() and "python" in (process / "comm").read_text()
        )
    )


def test_a_command_longer_than_an_argument_may_be_runs(jobs, tmp_path):
    filler = "x" * 200_000
    ran = jobs.run_text(
        write(
            tmp_path,
            build_entrypoint(command=f": {filler}\necho $0 | head -c 3; exit 9")["command"],
        ),
        shell=("bash",),
    )
    assert ran.code == 9
    assert sorted(path.name for path in tmp_path.glob("tao-*")) == []


def write(folder, text):
    path = folder / "entrypoint.sh"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    "text",
    [
        "'",
        '"',
        "$HOME `id` $(id)",
        "{}{config_path",
        "a\nb\n",
        "日本 é",
        "\\",
        "TAO",
        "%s %%",
        "\t!#~",
    ],
)
def test_any_character_survives_in_every_field(jobs, tmp_path, text):
    import json

    folder = tmp_path / f"in {text.replace('/', '')}"
    folder.mkdir()
    (folder / "f").write_text("x")
    ran = jobs.run(
        f"cat {{config_path}}; printf '%s' {shell_quoted(text)} >&2; cat "
        f"{shell_quoted(text.replace('/', '') + '.f')} >&2",
        specs={"k": text, text.replace(".", ""): 1, "in": str(folder / "f")},
        inputs=["in"],
        config_format="json",
        files={text.replace("/", "") + ".f": text},
        upload_excludes=[text],
        job_id=text,
    )
    assert ran.code == 0, ran.raw
    assert json.loads(ran.out) == {"k": text, text.replace(".", ""): 1, "in": str(folder / "f")}
    assert ran.err.decode() == text * 2


def shell_quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def test_a_root_with_spaces_and_quotes_works(jobs, tmp_path):
    root = tmp_path / 'it\'s "a" $root'
    ran = jobs.run(
        "cat {config_path}; cat \"{config_path}\"; cat '{config_path}'",
        specs={"a": 1},
        config_format="yaml",
        env={"TAO_RESULTS_ROOT": str(root)},
    )
    assert ran.out == b"a: 1\n" * 3


def test_a_path_of_the_job_that_another_shell_would_run_ends_it_before_the_command(jobs, tmp_path):
    command = "touch ran; bash -c 'cat {config_path}'"
    ran = jobs.run(command, specs={"a": 1}, env={"TAO_RESULTS_ROOT": str(tmp_path / "$(touch X)")})
    assert (ran.code, ran.failure["code"]) == (125, "command.placeholder")
    assert "$(touch X)" in ran.failure["what"] and "$1" in ran.failure["next"]
    assert not (tmp_path / "ran").exists() and not (tmp_path / "X").exists()
    assert jobs.run(command, specs={"a": 1}).out == b"a = 1\n"


def test_a_command_with_a_placeholder_takes_the_place_of_its_shell_and_ends_as_it_likes(jobs):
    """bash starts the last command of its text in its own place: a signal's answer is the
    command's.
    """
    code = (
        "import signal,sys,time; signal.signal(15, lambda *_: sys.exit(7)); print('ready', "
        "flush=True); time.sleep(60)"
    )
    job = jobs.start(
        PYTHON + " {script}", args={"script": "ready 1.py"}, files={"ready 1.py": code}
    )
    job.until(b"ready\n")
    job.process.terminate()
    assert job.ended().code == 7


def test_at_a_terminal_the_command_can_read_and_gets_ctrl_c(jobs):
    text = build_entrypoint(command="read line; echo got-$line; sleep 1000")["command"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve("/bin/bash", ["bash", "-c", text], jobs.environment(None))
    os.write(terminal, b"hello\n")
    seen = b""
    while b"got-hello" not in seen:
        seen += os.read(terminal, 4096)
    os.write(terminal, b"\x03")
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:
        pass
    assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 130


NAMESPACES = (
    shutil.which("unshare")
    and subprocess.run(["unshare", "-pf", "true"], capture_output=True, check=False).returncode == 0
)


@pytest.mark.skipif(not NAMESPACES, reason="needs the right to make a PID namespace")
def test_as_process_1_it_reaps_orphans_and_ends_on_a_signal(jobs):
    text = build_entrypoint(
        command="for i in 1 2 3; do (sleep 0.05 & ) ; done; sleep 0.4; for i in $(seq 1000); do "
        "left=$(cat /proc/[0-9]*/stat | grep -c ') Z'); [ $left = 0 ] && break; sleep 0.05; done; "
        "echo $left; echo ready; sleep 1000"
    )["command"]
    process = subprocess.Popen(
        ["unshare", "-pf", "--mount-proc", "--kill-child", "bash", "-c", text],
        env=jobs.environment(None),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    lines = [process.stdout.readline(), process.stdout.readline()]
    inside = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
    os.kill(int(inside), signal.SIGTERM)
    process.communicate(timeout=300)
    assert lines == [b"0\n", b"ready\n"]
    assert process.returncode == 143


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is mounted")
def test_a_command_that_failed_on_a_full_disk_is_told_with_the_folder(jobs, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], check=True)
    try:
        ran = jobs.run("cat /dev/zero > $TMPDIR/filler", env={"TMPDIR": str(disk)})
        assert str(disk) in ran.named("ended")[0].facts["full"]
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
    assert "full" not in jobs.run("exit 1").named("ended")[0].facts


# All that a command with an input, an output and a spec waits for. What else a job needs is imported
# while its command runs, or written anew in a few lines.
BEFORE_THE_COMMAND = {
    "binascii",
    "errno",
    "time",
    "zlib",
    "tao_sdk",
    "tao_sdk.net",
    "tao_sdk.net.address",
    "tao_sdk.net.atomic",
    "tao_sdk.net.environment",
    "tao_sdk.net.failure",
    "tao_sdk.runner",
    "tao_sdk.runner.first_half",
    "tao_sdk.runner.inputs",
    "tao_sdk.runner.inputs.archive_names",
    "tao_sdk.runner.inputs.fetch",
    "tao_sdk.runner.jsontext",
    "tao_sdk.runner.main",
    "tao_sdk.runner.outputs",
    "tao_sdk.runner.outputs.destination",
    "tao_sdk.runner.results_folder",
    "tao_sdk.runner.private",
    "tao_sdk.runner.process",
    "tao_sdk.runner.quote",
    "tao_sdk.runner.report",
    "tao_sdk.runner.signals",
    "tao_sdk.runner.spec",
    "tao_sdk.runner.template",
}


def test_the_command_waits_for_no_other_module_than_these(jobs, tmp_path):
    text = build_entrypoint(
        command="true",
        specs={"data": str(tmp_path), "out": ""},
        inputs=["data"],
        outputs=["out"],
        config_format="yaml",
    )["command"]
    told = jobs.run_text(text.replace("-ISXutf8 -c", "-ISXutf8 -Ximporttime -c")).raw.decode()
    before, mark, _ = told.partition('"stage": "command"')
    assert mark
    bare = ["python3", "-ISXutf8", "-Ximporttime", "-c", "import os"]
    every_python = subprocess.run(bare, capture_output=True, text=True, check=True).stderr
    assert imported(before) - imported(every_python) <= BEFORE_THE_COMMAND
    assert "tao_sdk.runner.main" in imported(before)


AT_THE_START = """
def told(event, _):
    if event == "os.posix_spawn":
        made = [each for each in object.__subclasses__() if each.__name__ == "AST"]
        os.write(2, b"classes of a syntax tree: %d\\n" % len(made))
sys.addaudithook(told)
"""


def test_the_command_does_not_wait_for_the_classes_of_pythons_syntax_tree(jobs):
    """The function `compile` makes them; `exec` does not."""
    text = build_entrypoint(command="true", specs={"out": ""}, outputs=["out"])["command"]
    first, rest = text.split("import sys,os\n", 1)
    told = jobs.run_text(f"{first}import sys,os\n{AT_THE_START}{rest}").raw
    assert b"classes of a syntax tree: 0\n" in told


def test_a_runner_that_crashes_tells_the_file_and_the_line(jobs):
    text = build_entrypoint(command="true", specs={}, outputs=[])["command"]
    ran = jobs.run_text(f"mkdir gone; cd gone; rmdir ../gone\n{text}")
    what = ran.named("failed")[0].facts["what"]
    place = re.fullmatch(r"The runner failed at <tao_sdk/(.*)> line (\d+)\.", what)
    assert place, what
    line = (Path(tao_sdk.__file__).parent / place[1]).read_text().splitlines()[int(place[2]) - 1]
    assert "os.getcwd()" in line


# What no job needs that starts a command and keeps its results in a folder.
SLOW_TO_IMPORT = {"enum", "fnmatch", "json", "re", "signal", "subprocess", "typing"}


def test_a_job_imports_no_slow_module_of_python_to_keep_its_results(jobs):
    command = "mkdir -p {out}/step_5 {out}/logs; echo 1 | tee {out}/step_5/a.pt {out}/logs/a.txt"
    text = build_entrypoint(command=command, args={"out": ""}, outputs=["out"])["command"]
    ran = jobs.run_text(text.replace("-ISXutf8 -c", "-ISXutf8 -Ximporttime -c"))
    told = imported(ran.raw.decode())
    assert {"hashlib", "tao_sdk.runner.outputs.manifest"} <= told
    assert told & SLOW_TO_IMPORT == set()


def imported(told):
    """The modules that python3 -X importtime told of."""
    return {line.rpartition("|")[2].strip() for line in told.splitlines() if "|" in line}

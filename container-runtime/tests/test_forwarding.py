"""Whatever the command, the low-level runtime gets it as the caller gave it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from conftest import PACKAGE, PYTHON, Host, need
from nvidia_container_runtime import install

NAMES = [
    "nvidia-container-runtime",
    "nvidia-container-runtime.cdi",
    "nvidia-container-runtime.legacy",
]
COMMANDS = [
    ("state", "box"), ("start", "box"), ("kill", "box", "KILL"), ("delete", "--force", "box"), ("delete", "create"),
    ("--log", "create", "state", "create"), ("run", "box"), ("exec", "box", "create"), (), ("ps", ""), ("--debug", "state", "box"),
    ("--bundle", "create", "state", "box"), ("-b", "create", "kill", "box"),
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_that_creates_nothing_reaches_the_runtime_unchanged(
    host: Host, name: str, words: tuple[str, ...]
) -> None:
    for _ in range(2):  # by Python first, then by the front's short cut
        (host.root / "record").unlink(missing_ok=True)
        assert host.run(*words, name=name, cwd=host.root).returncode == 0
        assert host.record.argv == [os.fsencode(host.recorder), *map(os.fsencode, words)]


@pytest.mark.parametrize(
    "words", [("state", b"a\xffb\n c"), ("create", "--bundle", "{bundle}", b"\xc3\x28 '\"$x*")]
)
def test_argument_bytes_that_are_no_text_come_through(
    host: Host, words: tuple[str | bytes, ...]
) -> None:
    host.spec()
    given = [str(host.bundle) if word == "{bundle}" else word for word in words]
    for locale in ("C", "C.UTF-8", "POSIX", "de_DE.ISO-8859-1"):
        assert host.run(*given, env={"LC_ALL": locale}).returncode == 0
        assert host.record.argv[1:] == [os.fsencode(word) for word in given]


def test_the_environment_of_a_creation_is_the_callers_without_what_python_adds(host: Host) -> None:
    host.spec()
    environment = {b"PWD": b"/", b"ODD": b"\xff=\n", b"EMPTY": b"", b"_nvcr": b"x", b"state": b"s"}
    environment |= {key.encode(): value.encode() for key, value in host.environment.items()}
    program = host.prefix / "bin/nvidia-container-runtime"
    for words in (["create", "--bundle", str(host.bundle), "x"], ["state", "x"], ["state", "x"]):
        subprocess.run([program, *words], env=environment, check=True, cwd="/")
        assert sorted(host.record.environment) == sorted(
            key + b"=" + value for key, value in environment.items()
        )


@pytest.mark.parametrize("command", ["create", "state"])
def test_no_signal_is_left_ignored(host: Host, command: str) -> None:
    host.spec()
    host.run(command, "--bundle", str(host.bundle), "x")
    assert host.record.signals == []


@pytest.mark.parametrize("command", ["create", "state"])
def test_what_the_caller_ignores_stays_ignored(host: Host, command: str) -> None:
    ignored = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP, signal.SIGINT)

    def ignore() -> None:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)

    host.spec()
    host.run(command, "--bundle", str(host.bundle), "x", preexec_fn=ignore, restore_signals=False)
    assert host.record.signals == sorted(ignored)


@pytest.mark.parametrize("command", ["create", "state"])
def test_the_callers_descriptors_stay_open_and_none_is_added(host: Host, command: str) -> None:
    host.spec()
    readable, writable = os.pipe()
    try:
        host.run(command, "--bundle", str(host.bundle), "x", pass_fds=(readable, writable))
    finally:
        os.close(readable)
        os.close(writable)
    assert host.record.descriptors == [0, 1, 2, readable, writable]


@pytest.mark.parametrize("command", ["create", "state"])
def test_the_runtime_has_the_shims_process_id_and_its_exit_code_is_the_shims(
    host: Host, command: str
) -> None:
    host.spec()
    program = host.prefix / "bin/nvidia-container-runtime"
    words = [program, command, "--bundle", str(host.bundle), "x"]
    with subprocess.Popen(words, env={**host.environment, "EXIT_WITH": "37"}) as child:
        assert child.wait() == 37
        assert host.record.pid == child.pid


@pytest.mark.parametrize("command", ["create", "state"])
def test_a_runtime_that_is_killed_is_seen_to_be_killed(host: Host, command: str) -> None:
    host.spec()
    done = host.run(
        command, "--bundle", str(host.bundle), "x", env={"KILL_WITH": str(int(signal.SIGTERM))}
    )
    assert done.returncode == -signal.SIGTERM


def test_the_version_is_ours_then_the_runtimes(host: Host) -> None:
    done = host.run("--version")
    assert done.stdout.startswith("NVIDIA Container Runtime version ")
    assert "\nspec: " in done.stdout
    assert done.stdout.endswith("\n\n")
    assert host.record.argv[1:] == [b"--version"]


def test_the_first_candidate_that_is_there_is_used(host: Host) -> None:
    host.configure(runtimes=["no-such-runtime", "/no/such/runtime", str(host.recorder)])
    assert host.run("state", "x").returncode == 0
    assert host.record.argv[0] == os.fsencode(host.recorder)


def test_a_name_is_looked_up_in_path(host: Host) -> None:
    host.configure(runtimes=[host.recorder.name])
    assert host.run("state", "x", env={"PATH": f"{host.recorder.parent}:/bin"}).returncode == 0
    assert host.record.argv[0] == os.fsencode(host.recorder)


@pytest.mark.parametrize("candidates", [["no-such-runtime", "/no/such"], [], ["/tmp"], [""]])
def test_without_a_runtime_every_command_says_so_in_one_line(
    host: Host, candidates: list[str]
) -> None:
    host.configure(runtimes=candidates)
    done = host.run("state", "x")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "error constructing low-level runtime" in done.stderr
    assert "error constructing low-level runtime" in host.log.read_text()


# --- the shell front


def test_a_changed_configuration_counts_at_once(host: Host, tmp_path: Path) -> None:
    other = tmp_path / "other-runtime"
    other.write_bytes(host.recorder.read_bytes())
    other.chmod(0o755)
    host.run("state", "x")
    old = host.config_file.read_text()
    times = (host.config_file.stat().st_atime, host.config_file.stat().st_mtime)
    host.configure(runtimes=[str(other)])
    host.run("state", "x")
    assert host.record.argv[0] == os.fsencode(other)
    host.config_file.write_text(old)  # a restored file, older than what was remembered since
    os.utime(host.config_file, times)
    host.run("state", "x")
    assert host.record.argv[0] == os.fsencode(host.recorder)


def test_a_configuration_that_breaks_is_noticed_by_every_command(host: Host) -> None:
    host.run("state", "x")
    host.config_file.write_text("[broken\n")
    done = host.run("state", "x")
    assert done.returncode == 1
    assert "error loading config" in done.stderr


def test_a_configuration_that_appears_or_goes_is_noticed(host: Host) -> None:
    text = host.config_file.read_text()
    host.config_file.unlink()
    name = {"PATH": f"{host.root}/bin:/bin"}
    (host.root / "bin").mkdir()
    (host.root / "bin/runc").symlink_to(host.recorder)
    host.run("state", "x", env=name)
    assert host.record.argv[0] == os.fsencode(host.root / "bin/runc")
    host.config_file.write_text(text)
    host.run("state", "x", env=name)
    assert host.record.argv[0] == os.fsencode(host.recorder)


def test_a_better_candidate_that_appears_later_is_used(host: Host) -> None:
    (host.root / "bin").mkdir()
    host.configure(runtimes=["preferred-runtime", str(host.recorder)])
    path = {"PATH": f"{host.root}/bin:/bin"}
    host.run("state", "x", env=path)
    (host.root / "bin/preferred-runtime").symlink_to(host.recorder)
    host.run("state", "x", env=path)
    assert host.record.argv[0] == os.fsencode(host.root / "bin/preferred-runtime")


def test_the_front_trusts_no_memory_of_another_user(host: Host) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to give a file away")
    host.run("state", "x")
    memory = host.prefix / "run/front-state"
    memory.write_text("_nvcr_same() { true; }\n_nvcr_runtime=/bin/false\n")
    os.chown(memory, 65534, 65534)
    try:
        assert host.run("state", "x").returncode == 0
        assert host.record.argv[0] == os.fsencode(host.recorder)
    finally:
        memory.unlink(missing_ok=True)


@pytest.mark.parametrize(("owner", "mode"), [(65534, 0o755), (0, 0o777)])
def test_no_memory_is_believed_in_a_folder_that_another_user_can_change(
    host: Host, owner: int, mode: int
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to give a folder away")
    host.run("state", "x")
    folder = host.prefix / "run"
    (folder / "front-state").write_text("_nvcr_same() { true; }\n_nvcr_runtime=/bin/false\n")
    os.chown(folder, owner, 0)
    folder.chmod(mode)
    try:
        host.created()
        assert not (folder / "front-state").exists()
        assert host.run("state", "x").returncode == 0
        assert host.record.argv[0] == os.fsencode(host.recorder)
    finally:
        shutil.rmtree(folder)


def test_nobody_else_reaches_the_memory(host: Host) -> None:
    """Not even where its files' modes would let him: the shell front sees no modes."""
    if os.geteuid() != 0:
        pytest.skip("only root's memory is kept")
    shutil.rmtree(host.prefix / "run", ignore_errors=True)
    host.created()
    assert (host.prefix / "run").stat().st_mode & 0o777 == 0o700


def test_an_installation_believes_no_memory_of_an_older_version(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o755)
    memory = tmp_path / "run/front-state"
    for suffix in ("", ".memory", ".specs", ".cli"):
        memory.with_name(memory.name + suffix).write_text(
            "_nvcr_same() { true; }\n_nvcr_runtime=/bin/false\n"
        )
    memory.chmod(0o666)
    install.main(["--prefix", str(tmp_path), "--python", str(PYTHON), "--state", str(memory)])
    assert not list(memory.parent.iterdir())


def test_a_program_that_engines_start_is_only_installed_isolated() -> None:
    """A script that pip makes would read PYTHONPATH and the user's own packages."""
    scripts = (
        (PACKAGE / "pyproject.toml")
        .read_text()
        .partition("[project.scripts]\n")[2]
        .partition("\n\n")[0]
    )
    assert scripts == 'nvidia-container-runtime-install = "nvidia_container_runtime.install:main"'


def test_a_memory_that_others_could_write_is_made_anew(host: Host) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root's memory is kept")
    host.created()
    memory = host.prefix / "run/front-state"
    memory.write_text("_nvcr_same() { true; }\n_nvcr_runtime=/bin/false\n")
    memory.chmod(0o666)
    host.created()
    assert host.run("state", "x").returncode == 0
    assert memory.stat().st_mode & 0o022 == 0
    assert host.record.argv[0] == os.fsencode(host.recorder)


def test_the_front_really_answers_from_memory(host: Host) -> None:
    """Otherwise the tests above would hold for a front that always asks Python."""
    host.run("state", "x")
    memory = host.prefix / "run/front-state"
    lines = memory.read_text().splitlines(keepends=True)
    assert lines[0].startswith("_nvcr_runtime=")
    memory.write_text("_nvcr_runtime=/bin/true\n" + "".join(lines[1:]))
    (host.root / "record").unlink(missing_ok=True)
    assert host.run("state", "x").returncode == 0
    assert not (host.root / "record").exists()
    memory.unlink()


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox sh", "bash --posix"])
def test_the_front_is_the_same_in_every_shell(host: Host, shell: str) -> None:
    need(shell, shutil.which(shell.split(maxsplit=1)[0]))
    front = str(host.prefix / "bin/nvidia-container-runtime")
    host.run("state", "x")
    memory = host.prefix / "run/front-state"
    memory.write_text(
        "_nvcr_runtime=/bin/echo\n" + "".join(memory.read_text().splitlines(keepends=True)[1:])
    )
    words = [*shell.split(), front, "delete", "a b", "*"]
    answered = subprocess.run(
        words, env=host.environment, capture_output=True, text=True, check=True, cwd="/"
    )
    assert answered.stdout == "delete a b *\n"
    memory.unlink()
    host.spec()
    subprocess.run(
        [*shell.split(), front, "create", "-b", str(host.bundle), "x"],
        env=host.environment,
        check=True,
    )
    assert host.record.argv[1:] == [b"create", b"-b", os.fsencode(host.bundle), b"x"]


def test_odd_text_in_the_configuration_never_reaches_the_shell(host: Host) -> None:
    marker = host.root / "marker"
    for text in (
        f"# '; touch {marker}; '\n",
        f"# $(touch {marker}) `touch {marker}`\n",
        "# \\ é\n",
    ):
        host.configure()
        host.config_file.write_text(text + host.config_file.read_text())
        for _ in range(2):
            assert host.run("state", "x").returncode == 0
            assert host.record.argv[1:] == [b"state", b"x"]
    assert not marker.exists()


def test_debug_lines_are_written_for_every_command(host: Host) -> None:
    for _ in range(2):
        host.log.unlink(missing_ok=True)
        host.run("--debug", "state", "x")
        assert "Forwarding command to runtime" in host.log.read_text()


def test_nothing_is_logged_for_a_command_that_creates_nothing(host: Host) -> None:
    for _ in range(2):
        host.run("--log", str(host.root / "runtime.log"), "state", "x")
    assert not host.log.exists()
    assert not (host.root / "runtime.log").exists()


# --- other interpreters

PYENV = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
INTERPRETERS = sorted(PYENV.glob("3.*/bin/python3.[0-9]*[0-9]"))
SUPPORTED = [path for path in INTERPRETERS if int(path.name.partition(".")[2]) >= 9]


@pytest.mark.parametrize("python", SUPPORTED, ids=lambda path: path.name)
def test_every_supported_interpreter_runs_it_packed_and_from_sources(
    host: Host, tmp_path: Path, python: Path
) -> None:
    from nvidia_container_runtime import install

    target = tmp_path / "prefix"
    install.main(
        ["--prefix", str(target), "--python", str(python), "--state", str(target / "state")]
    )
    host.prefix = target
    for pack in (True, False):
        if not pack:  # as after the interpreter was replaced
            for file in (target / "lib/nvidia-container-runtime").glob("*.pack"):
                file.unlink()
        after = host.created("NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=graphics")
        assert after["hooks"]["prestart"][0]["args"][1] == "prestart"
        done = host.run("--version")
        assert done.returncode == 0, done.stderr
        for words in (
            ["config", "default"],
            ["info"],
            ["runtime", "configure", "--dry-run", "--config", str(tmp_path / "x")],
        ):
            done = host.run(*words, name="nvidia-ctk")
            assert done.returncode == 0, done.stderr


def test_interpreters_that_can_start_quickly_do(tmp_path: Path) -> None:
    """Otherwise creations would work as well, and cost a quarter more."""
    from nvidia_container_runtime import install

    for python in (PYTHON, *SUPPORTED):
        target = tmp_path / python.name
        install.main(
            ["--prefix", str(target), "--python", str(python), "--state", str(target / "state")]
        )
        start = target / "lib/nvidia-container-runtime/start" / python.name
        assert start.is_symlink() == (int(python.name.partition(".")[2]) >= 11), python
        assert (
            str(start) in (target / "bin/nvidia-container-runtime").read_text()
        ) == start.is_symlink()


def test_when_the_interpreter_is_gone_another_takes_over(host: Host, tmp_path: Path) -> None:
    from nvidia_container_runtime import install

    gone = tmp_path / "python3.99"
    gone.symlink_to(Path("/usr/bin/python3").resolve())
    install.main(
        [
            "--prefix",
            str(tmp_path / "prefix"),
            "--python",
            str(gone),
            "--state",
            str(tmp_path / "state"),
        ]
    )
    gone.unlink()
    host.prefix = tmp_path / "prefix"
    host.spec()
    assert host.create().returncode == 0


def test_without_the_front_every_command_works_too(host: Host, tmp_path: Path) -> None:
    from nvidia_container_runtime import install

    install.main(
        [
            "--prefix",
            str(tmp_path / "prefix"),
            "--python",
            str(Path("/usr/bin/python3").resolve()),
            "--no-front",
        ]
    )
    host.prefix = tmp_path / "prefix"
    host.spec()
    assert host.create().returncode == 0
    environment = {"A": "1", **host.environment}
    subprocess.run(
        [host.prefix / "bin/nvidia-container-runtime", "state", "x"], env=environment, check=True
    )
    assert host.record.argv[1:] == [b"state", b"x"]


def test_make_installs_below_a_prefix_and_a_staging_folder_and_takes_all_away_again(
    tmp_path: Path,
) -> None:
    need("make", shutil.which("make"))
    words = [f"PREFIX={tmp_path}/usr", f"DESTDIR={tmp_path}/staged"]
    programs = tmp_path / "staged" / str(tmp_path).lstrip("/") / "usr"

    def make(target: str) -> None:
        subprocess.run(["make", "-C", PACKAGE, target, *words], check=True, capture_output=True)

    make("install")
    names = sorted(one.name for one in (programs / "bin").iterdir())
    assert names == sorted([*NAMES, "nvidia-container-runtime-hook", "nvidia-ctk"])
    assert not (tmp_path / "usr").exists()
    assert "staged" not in (programs / "bin/nvidia-ctk").read_text()
    (programs / "bin/other").write_text("not ours")
    make("uninstall")
    assert [one for one in tmp_path.rglob("*") if not one.is_dir()] == [programs / "bin/other"]

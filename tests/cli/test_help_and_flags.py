"""Help, flags and completion: what can be typed, and how it is found out."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.tao_command import COMMAND, Ended, Ran, Tao
from tao_sdk.backends.by_name import backend_class
from tao_sdk.cli.flags import SPEC, typed_under
from tao_sdk.cli.submit import run
from tao_sdk.cli.verbs import VERBS
from tao_sdk.client.typed_values import file_pair, read_fields
from tao_sdk.model.fields import plain_value, settings_of
from tao_sdk.model.spec import JobSpec, read_spec


def test_help_lists_every_verb_with_a_few_words(tao: Tao) -> None:
    ran = tao("--help")
    assert ran.code == 0
    for name, verb in VERBS.items():
        assert f"  {name} " in ran.out
        assert verb.summary in ran.out
    assert max(map(len, ran.out.splitlines())) <= 100


def test_help_tells_every_exit_code_that_the_page_tells(tao: Tao) -> None:
    told = tao("--help").out.partition("Exit codes:")[2]
    page = Path(__file__).parents[2] / "docs" / "cli.md"
    table = page.read_text().partition("## Exit codes")[2].partition("\n## ")[0]
    codes = re.findall(r"^\| (\d+) \|", table, re.MULTILINE)
    assert re.findall(r"^  (\d+) ", told, re.MULTILINE) == codes


def rows_of_verbs() -> dict[str, str]:
    """What the page of the command says of each verb, without the targets of its links."""
    page = Path(__file__).parents[2] / "docs" / "cli.md"
    table = page.read_text().partition("## Verbs")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z]+)[^`]*` \| (.*) \|$", table, re.MULTILINE)
    return {verb: re.sub(r"\[(.*?)\]\(.*?\)", r"\1", text) for verb, text in rows}


def test_the_page_tells_every_verb_and_begins_with_the_word_of_the_help() -> None:
    rows = rows_of_verbs()
    assert list(rows) == list(VERBS)
    first_words = {verb: text.split()[0] for verb, text in rows.items()}
    assert first_words == {name: verb.summary.split()[0].lower() for name, verb in VERBS.items()}


@pytest.mark.parametrize("verb", VERBS)
def test_a_flag_that_the_page_names_is_one_of_its_verb(
    typed: Callable[..., Ran], verb: str
) -> None:
    own_flags = rows_of_verbs()[verb].partition("; `--image` of `run`")[0]
    named = set(re.findall(r"`(--[a-z-]+)", own_flags))
    told = set(re.findall(r"--[a-z-]+", typed(verb, "--help").out))
    assert named <= told


@pytest.mark.parametrize("verb", ["run", "wait", "retry"])
def test_a_verb_that_waits_tells_its_exit_codes(typed: Callable[..., Ran], verb: str) -> None:
    told = " ".join(typed(verb, "--help").out.split())
    assert re.search(r"The exit code is 0 if .* Complete, 1 if .* in Error", told)
    assert "tao --help" in told


def test_help_loads_no_verb_and_no_client() -> None:
    loaded = "[name for name in sys.modules if name.startswith(('tao_sdk.', 'yaml', 'rich'))]"
    script = (
        "import sys; from tao_sdk.cli.main import run; run(['--help']); "
        f"print(*sorted({loaded}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    unwanted = (
        "tao_sdk.client",
        "tao_sdk.engine",
        "tao_sdk.store",
        "tao_sdk.cli.submit",
        "tao_sdk.cli.look",
        "yaml",
        "rich",
    )
    assert [name for name in done.stderr.split() if name.startswith(unwanted)] == []
    assert "tao_sdk.cli.verbs" in done.stderr.split()


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_and_json(typed: Callable[..., Ran], verb: str) -> None:
    ran = typed(verb, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert "--json" in ran.out


def test_without_a_verb_help_is_shown(tao: Tao) -> None:
    assert tao().out == tao("--help").out


def test_the_version_is_told(typed: Callable[..., Ran]) -> None:
    assert typed("--version").out.startswith("tao 8.")


def test_every_field_of_a_job_and_every_option_of_its_platform_is_a_flag_of_run(tao: Tao) -> None:
    shown = tao("run", "--help", COLUMNS="400").out
    for record in (JobSpec, backend_class("local").Options):
        for name, declared in settings_of(record).items():
            assert f"--{name.replace('_', '-')}" in shown
            for alias in declared.metadata["flags"]:
                assert alias in shown


@pytest.mark.parametrize(
    ("flags", "field", "value"),
    [
        (["--gpu-count", "0"], "gpu_count", 0),
        (["--gpus", "0"], "gpu_count", 0),
        (["--time-limit", "90m"], "time_limit", "90m"),
        (["--retries", "2"], "retries", 2),
        (["--specs", "spec.yaml", "--config-format", "yaml"], "specs", {"a": {"b": 1e-05}}),
        (
            ["--args", "lr=1e-05", "--args", "name=x", "--args", "list=[1, 2]"],
            "args",
            {"lr": 1e-05, "name": "x", "list": [1, 2]},
        ),
        (["--outputs", "/out"], "outputs", ["/out"]),
        (["--hooks", "on_error=./tell.sh"], "hooks", {"on_error": "./tell.sh"}),
        (["--mounts", "/a:/b:ro"], "mounts", ["/a:/b:ro"]),
        (["--label", "a=b=c", "--label", "d="], "labels", {"a": "b=c", "d": ""}),
    ],
)
def test_a_flag_gives_its_field_the_value_that_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], field: str, value: object
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text("a: {b: 1e-05}")
    with run.make_context("run", [*flags, "--", "true"]) as context:
        typed = read_fields(JobSpec, typed_under(SPEC, context.params))
    assert plain_value(getattr(read_spec({"command": "x", **typed}), field)) == value


def test_the_same_file_can_be_typed_with_another_name_in_the_job(tao: Tao) -> None:
    tao.write("here.txt", "content")
    job = tao.run_detached(
        "cat there.txt here.txt", "--files", "there.txt=here.txt", "--files", "here.txt"
    )
    tao("wait", job)
    assert tao("logs", job).out == "contentcontent"


@pytest.mark.parametrize(
    ("there", "typed", "meant"),
    [
        (["data=v1.csv"], "data=v1.csv", ("data=v1.csv", "data=v1.csv")),
        (["lr=0.1/data=v1.csv"], "lr=0.1/data=v1.csv", ("data=v1.csv", "lr=0.1/data=v1.csv")),
        (["v1.csv"], "data=v1.csv", ("data", "v1.csv")),
        (["data=v1.csv"], "x=data=v1.csv", ("x", "data=v1.csv")),
        (["data=v1.csv", "v1.csv"], "./data=v1.csv", ("data=v1.csv", "./data=v1.csv")),
        (["data=v1.csv", "v1.csv"], "data=./v1.csv", ("data", "./v1.csv")),
        ([], "data=v1.csv", ("data", "v1.csv")),
    ],
)
def test_a_file_whose_name_has_an_equals_sign_is_meant_as_a_whole(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    there: list[str],
    typed: str,
    meant: tuple[str, str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in there:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    assert file_pair(typed) == meant


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--files", "data=v1.csv"], "--files data=v1.csv can mean two files."),
        (
            ["--files", "a/x.py", "--files", "b/x.py"],
            "two files for x.py in the job: a/x.py and b/x.py.",
        ),
        (
            ["--files", "a", "--files", "a/x.py=b/x.py"],
            "files has two files for a/x.py in the job.",
        ),
        (
            ["--files", "a/x.py", "--files", "./x.py=b/x.py"],
            "files has two files for x.py: 'x.py' and './x.py'.",
        ),
        (["--files", "x="], "--files is 'x='; it must be PATH, or PATH-IN-THE-JOB=PATH."),
    ],
)
def test_two_files_that_are_meant_for_one_place_are_told(
    tao: Tao, flags: list[str], told: str
) -> None:
    for name in ("data=v1.csv", "v1.csv", "a/x.py", "b/x.py"):
        tao.write(name, name)
    ran = tao("run", "--gpus", "0", "--platform", "local", *flags, "--", "true")
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (
            ["--env", "NOT_SET_ANYWHERE"],
            "--env NOT_SET_ANYWHERE takes its value from the environment",
        ),
        (["--label", "x"], "--label is 'x'; it must be NAME=VALUE."),
        (["--option", "x"], "--option 'x' has no value."),
        (["--option", "venv_pth=1"], "Did you mean venv_path?"),
        (["--files", "nowhere.py"], "there is no nowhere.py"),
        (["--specs", "nowhere.yaml"], "nowhere.yaml: there is no such file."),
        (["--partition", "polar"], "--partition is for slurm only: add --platform slurm."),
        (
            ["--time-limit", "soon"],
            "--time-limit is 'soon'; it must be a duration such as 90s, 30m, 4h or 1-12:00:00.",
        ),
        (["--mode", "confg"], "--mode is 'confg'; it must be one of config, args, passthrough."),
        (["stray", "words"], "One word too many: 'words'."),
    ],
)
def test_a_flag_that_makes_no_sense_is_told(
    typed: Callable[..., Ran], flags: list[str], told: str
) -> None:
    ran = typed("run", *flags, "--", "true")
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("ls --limit x", "--limit is 'x'; it must be a whole number of 0 or more."),
        ("ls --limit -1", "--limit is '-1'; it must be a whole number of 0 or more."),
        ("ls --limit", "--limit needs a value."),
        ("run --platform", "--platform needs a value."),
        ("ls --json=yes", "--json takes no value."),
        ("logs --rank x", "--rank is 'x'; it must be a whole number of 0 or more, or all."),
        ("logs --stream err", "--stream is 'err'; it must be stdout or stderr."),
        ("wait --timeout soon", "--timeout: 'soon' is not a duration such as"),
        ("completion tcsh", "shell is 'tcsh'; it must be bash, zsh or fish."),
        ("completion", "shell is missing. It is bash, zsh or fish."),
        ("files", "URI is missing."),
        (
            "retry",
            "JOB is missing. It is the id or the name of a job.\n"
            "next:  The jobs there are: tao ls\n",
        ),
        ("why a b", "One word too many: 'b'."),
        ("ls --jsn", "No such option: --jsn. Did you mean --json or --jsonl?"),
        ("run x.yaml --lr 1", "No such option: --lr.\n"),
        (
            "run --file x.py -- true",
            "No such option: --file\nnext:  To send a file with the job: --files",
        ),
        (
            "run -- --gpus 0 echo hi",
            "The command begins with a flag: --gpus.\n"
            "next:  Flags stand before --: tao run --gpus 0 -- echo hi\n",
        ),
        (
            "run -- --gpus 0",
            "The command begins with a flag: --gpus.\nnext:  Flags of tao run stand",
        ),
    ],
)
def test_what_no_verb_can_read_is_told_in_plain_words(
    typed: Callable[..., Ran], line: str, told: str
) -> None:
    ran = typed(*line.split())
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {told}")
    assert "\nnext:  " in ran.err


@pytest.mark.parametrize(
    "said", ["platform: slurm", 'platform: "slurm"', "platform:   'slurm'  # there"]
)
def test_the_flags_are_those_of_the_job_files_platform_however_it_is_written_and_whatever_else_is_named(
    tao: Tao, said: str
) -> None:
    tao.write("spec.yaml", "a: 1\n")
    tao.write("job.yaml", f"command: true\n{said}\n")
    assert "How to run it on slurm" in tao("plan", "--specs", "spec.yaml", "job.yaml", "--help").out


def complete(tao: Tao, *words: str) -> list[str]:
    """What bash offers after these words, with `tao` in the path as a program: the script starts it
    through env.
    """
    programs = tao.home / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "tao").write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    (programs / "tao").chmod(0o755)
    script = f"""
    source <(tao completion bash)
    COMP_WORDS=(tao {" ".join(repr(word) for word in words)}); COMP_CWORD={len(words)}
    _tao_completion tao; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    env = {**tao.env, "PATH": f"{programs}:{tao.env['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tao.home, env=env, capture_output=True, text=True, timeout=300
    )
    return done.stdout.split()


def test_bash_completes_verbs_flags_and_job_ids(ended: Ended) -> None:
    assert complete(ended.tao, "wa") == ["wait", "watch"]
    assert "--tail" in complete(ended.tao, "logs", "--t")
    assert complete(ended.tao, "status", "go") == [ended.complete]
    assert "--venv-path" in complete(ended.tao, "run", "--v")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_completion_script_for_each_shell(typed: Callable[..., Ran], shell: str) -> None:
    assert "_TAO_COMPLETE" in typed("completion", shell).out

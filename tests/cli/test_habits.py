"""What fingers type out of habit, from docker, sbatch and kubectl: each is answered with the words
that do it here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support.tao_command import Ran
from tao_sdk.cli.habits import FLAGS_INSTEAD, FLAGS_OF_RUN, INSTEAD
from tao_sdk.cli.verbs import VERBS

Typed = Callable[..., Ran]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("run", "-e", "K=V", "job.yaml"), "tao run --env NAME=VALUE"),
        (("run", "-n", "try", "job.yaml"), "tao run --name NAME"),
        (("run", "-J", "try", "job.yaml"), "tao run --name NAME"),
        (("run", "-n", "4", "job.yaml"), "tao run --nodes N"),
        (("run", "-n", "4", "job.yaml"), "tao run --gpus N"),
        (("run", "-n", "jobs", "job.yaml"), "tao run --namespace NAME"),
        (("run", "--retry", "2", "job.yaml"), "tao run --retries N"),
        (("retry", "job", "--lr", "3"), "With other settings it is a new job: tao run"),
        (("retry", "job", "--", "python"), "With other settings it is a new job: tao run"),
        (("my train.py",), "tao run -- python3 'my train.py'"),
        (("prepare.sh",), "tao run -- bash prepare.sh"),
        (("evaluate", "try"), "tao run --model NAME --action evaluate --parent JOB"),
        (("rm", "-f", "try"), "tao rm --force JOB"),
        (("ls", "-l"), "tao status JOB"),
        (("ls", "--name", "try"), "tao status NAME"),
        (("logs", "-5", "try"), "tao logs JOB --tail N"),
        (("logs", "-50"), "tao logs JOB --tail N"),
        (("logs", "-F", "try"), "tao logs -f JOB"),
        (("results", "try", "-o", "here"), "tao results JOB --fetch DIR"),
        (("results", "try", "-o", "json"), "tao results JOB --json"),
        (("ls", "-o", "json"), "For programs: --json"),
        (("-o", "json", "ls"), "For programs: --json"),
        (("status", "try", "--output", "json"), "For programs: --json"),
        (("status", "try", "--output=json"), "For programs: --json"),
        (("status", "try", "--format", "json"), "For programs: --json"),
        (("--format", "json", "ls"), "For programs: --json"),
        (("run", "-o", "log.txt", "job.yaml"), "tao logs JOB"),
        (("run", "--output", "json", "job.yaml"), "tao run --json"),
        (("compare", "a", "b", "-o", "x.svg"), "tao compare JOB JOB --out FILE"),
        (("init", "-o", "x.yaml"), "tao init job.yaml"),
        (("ls", "-q"), "tao ls --jsonl"),
        (("ls", "--quiet"), "tao ls --jsonl"),
        (("rm", "-y", "try"), "leave it out"),
        (("gc", "--yes"), "leave it out"),
        (("run", "-p", "80:80", "ubuntu"), "--platform docker --network host"),
        (("run", "--publish", "80:80", "job.yaml"), "--platform docker --network host"),
        (("run", "-A", "acct", "job.yaml"), "tao run --platform slurm --account NAME"),
        (("run", "--ntasks", "4", "job.yaml"), "tao run --nodes N"),
        (("run", "--env-file", "x", "job.yaml"), "tao run --env NAME"),
        (("run", "-u", "1000", "job.yaml"), "tao run --platform docker --user UID"),
        (("run", "--ipc=host", "job.yaml"), "tao run --shm-size 8g"),
        (("ls", "-n", "default"), "tao ls --platform NAME"),
        (("status", "-n", "default", "try"), "tao ls --platform NAME"),
        (("logs", "-n", "default", "try"), "tao logs JOB --tail N"),
        (("results", "--label", "a=b"), "tao ls --label NAME=VALUE --sort METRIC"),
        (("ls", "-A"), "tao ls --limit 0"),
        (("ls", "-u", "me"), "tao ls --status running"),
        (("cancel", "-u", "me"), "tao cancel --label NAME=VALUE"),
        (("logs", "-t", "try"), "tao events JOB"),
        (("logs", "--timestamps", "try"), "tao events JOB"),
        (("logs", "--previous", "try"), "A job's log holds all its attempts: tao logs JOB"),
        (("logs", "-c", "main", "try"), "tao logs JOB --rank N"),
        (("images", "-a"), "All image keys: tao images"),
        (("events", "--tail", "3"), "tao events JOB | tail"),
        (("events", "-w"), "tao events --follow"),
        (("-v",), "tao --version"),
        (("run", "-g", "2", "job.yaml"), "tao run --gpus N"),
        (("run", "--gpu", "2", "job.yaml"), "tao run --gpus N"),
        (("run", "-t", "10m", "job.yaml"), "tao run --time-limit 10m"),
        (("run", "--cpus-per-task", "2", "job.yaml"), "tao run --cpus N"),
        (("run", "--parent-job-id", "x", "job.yaml"), "create_job(..., parent_job_id=JOB)"),
        (("run", "--slurm", "job.yaml"), "tao run --platform slurm"),
        (("run", "--k8s", "job.yaml"), "tao run --platform kubernetes"),
        (("run", "--namespace", "a", "job.yaml"), "add --platform kubernetes"),
        (("run", "-it", "ubuntu", "bash"), "A job takes no input"),
        (("run", "--rm", "job.yaml"), "tao rm JOB"),
        (("run", "-v", "/a:/b", "job.yaml"), "tao run --mounts SRC:DST"),
        (("run", "-f", "job.yaml"), "The job file is an argument: tao run job.yaml"),
        (("run", "--file", "job.yaml"), "The job file is an argument: tao run job.yaml"),
        (("plan", "-f", "job.yaml"), "The job file is an argument: tao plan job.yaml"),
        (("plan", "-e", "K=V"), "tao plan --env NAME=VALUE"),
        (("run", "-p", "polar", "job.yaml"), "tao run --platform slurm --partition NAME"),
        (("run", "-v", "/a:/b", "job.yaml"), "A job on this machine (local) sees its paths"),
        (("run", "--mem", "8g", "job.yaml"), "tao run --memory 32g"),
        (("run", "--gres", "gpu:2", "job.yaml"), "tao run --gpus N"),
        (("run", "-w", "/work", "job.yaml"), "tao run -- 'cd DIR && COMMAND'"),
        (("run", "-w", "n1", "job.yaml"), "--platform slurm --nodelist NAMES"),
        (("plan", "--gpus", "all", "job.yaml"), "Write -1 for all of them"),
        (("run", "--gpus", "device=0", "--", "true"), "Which ones: --gpu-ids N"),
        (("run", "--gpus", '"device=0,1"', "--", "true"), "Which ones: --gpu-ids N"),
        (("run", "--gpus-per-node", "1", "job.yaml"), "tao run --gpus N"),
        (("run", "--tag", "a=b", "job.yaml"), "tao run --label NAME=VALUE"),
        (("run", "-c", "4", "job.yaml"), "tao run --cpus N"),
        (("run", "--runtime", "nvidia", "job.yaml"), "tao run --gpus 1"),
        (("attach", "-f", "try"), "tao attach JOB"),
        (("status", "-f"), "tao attach JOB"),
        (("ls", "-f"), "tao events --follow"),
        (("logs", "--grep", "loss", "try"), "tao logs JOB | grep WORD"),
        (("wait", "--for", "x", "try"), "tao wait JOB"),
        (("results", "--download", "try"), "tao results JOB --fetch DIR"),
        (("cancel", "-a"), "tao ls --status running"),
    ],
)
def test_a_flag_of_another_tool_names_the_flag_that_does_it(
    typed: Typed, args: tuple[str, ...], told: str
) -> None:
    ran = typed(*args)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err
    assert "--set" not in ran.err
    assert len(ran.err.splitlines()) == 2


@pytest.mark.slow
def test_a_flag_that_nobody_has_still_leads_to_set_and_help(typed: Typed) -> None:
    assert "--set KEY=VALUE. All flags: tao run --help" in typed("run", "--lr", "1").err


@pytest.mark.parametrize(
    ("args", "command"),
    [
        (("run", "python3 x.py"), "tao run -- python3 x.py"),
        (("run", "python3 x.py | tee y"), "tao run -- 'python3 x.py | tee y'"),
        (("run", "ubuntu", "python3", "x.py"), "tao run --image ubuntu -- python3 x.py"),
    ],
)
def test_a_command_in_the_place_of_the_job_file_is_shown_behind_dashes(
    typed: Typed, args: tuple[str, ...], command: str
) -> None:
    ran = typed(*args)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[-1].endswith(f": {command}")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("run", "job.yaml", "--set", "lr", "3"), "--set lr=3"),
        (("run", "--set", "lr", "3", "job.yaml"), "--set lr=3"),
        (("doctor", "job.yaml", "--set", "lr", "3"), "--set lr=3"),
        (("run", "job.yaml", "--label", "a", "b"), "--label a=b"),
    ],
)
def test_a_blank_in_the_place_of_an_equals_sign_is_told(
    typed: Typed, tmp_path: Path, args: tuple[str, ...], told: str
) -> None:
    (tmp_path / "job.yaml").write_text("command: 'true'\nspecs: {lr: 1}\n")
    ran = typed(*args)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[-1] == f"next:  Write {told}"


@pytest.mark.parametrize(
    "args",
    [
        ("run", "--label", "lr=1", "--label", "lr=2", "--", "true"),
        ("ls", "--label", "lr=1", "--label", "lr=2"),
    ],
)
def test_two_values_of_one_label_are_refused(typed: Typed, args: tuple[str, ...]) -> None:
    ran = typed(*args)
    assert (ran.code, ran.out) == (2, "")
    assert "--label lr has two values: 1 and 2." in ran.err


def test_a_job_file_in_a_folder_that_is_not_there_makes_the_folder(
    typed: Typed, tmp_path: Path
) -> None:
    assert typed("init", "sub/deep/x.yaml").code == 0
    assert (tmp_path / "sub" / "deep" / "x.yaml").is_file()
    (tmp_path / "file").write_text("")
    assert typed("init", "file/x.yaml").code == 2


def test_a_job_file_that_is_not_there_can_be_written(typed: Typed, tmp_path: Path) -> None:
    ran = typed("run", "job.yaml", "--json")
    assert (ran.code, ran.error["next"]) == (2, "tao init job.yaml")
    (tmp_path / "jobs.yaml").write_text("command: 'true'\n")
    assert "Did you mean jobs.yaml?" in typed("run", "job.yaml").err


def test_a_word_that_is_no_job_file_can_be_run_as_a_command(typed: Typed) -> None:
    ran = typed("run", "nosuchprogram")
    assert (ran.code, ran.out) == (2, "")
    assert "To run it as a command: tao run -- nosuchprogram" in ran.err


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("ls", "slow"), "tao ls --label NAME=VALUE"),
        (("ls", "slow"), "tao status slow"),
        (("gc", "slow"), "tao rm slow"),
        (("watch", "ls"), "tao events --follow"),
        (("watch", "slow"), "tao attach slow"),
    ],
)
def test_a_word_that_a_verb_does_not_take_leads_to_what_does(
    typed: Typed, args: tuple[str, ...], told: str
) -> None:
    ran = typed(*args)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err


@pytest.mark.parametrize(
    ("word", "status"),
    [("runing", "running"), ("failed", "error"), ("done", "complete"), ("cancelled", "canceled")],
)
def test_a_status_that_is_misspelt_or_called_otherwise_names_ours(
    typed: Typed, word: str, status: str
) -> None:
    ran = typed("ls", "--status", word)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        f"error: invalid status: {word!r}",
        f"next:  Did you mean {status}?",
    ]
    assert "pending, running" in typed("ls", "--status", "xyzzy").err


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("run", "--label", "a", "--", "true"), "Write --label a=VALUE"),
        (("ls", "--label", "a"), "Write --label a=VALUE"),
        (("ls", "--label", "two words"), "Write --label 'two words=VALUE'"),
        (("cancel", "--label", "=x"), "Write --label NAME=x"),
        (("run", "--label", "", "--", "true"), "Write --label NAME=VALUE"),
    ],
)
def test_a_label_without_an_equals_sign_is_told_what_to_write(
    typed: Typed, args: tuple[str, ...], told: str
) -> None:
    ran = typed(*args)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[-1] == f"next:  {told}"


def test_a_wrong_value_is_told_of_the_flag_as_it_is_typed(typed: Typed) -> None:
    assert typed("run", "--gpus", "two", "--", "true").err.startswith("error: --gpus is 'two';")


def test_a_flag_without_its_value_leads_to_the_help_of_its_verb(typed: Typed) -> None:
    assert typed("results", "slow", "--fetch").err.endswith("tao results --help\n")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("progress", "try"), "Did you mean tao status?"),
        (("curve", "try"), "tao attach JOB"),
        (("plot", "try"), "tao compare JOB JOB"),
        (("metrics", "try"), "tao status JOB"),
        (("get", "jobs"), "All jobs: tao ls"),
        (("describe", "try"), "Did you mean tao status?"),
        (("apply", "-f", "job.yaml"), "Did you mean tao run?"),
        (("port-forward", "try", "6006"), "No port of a job is opened here."),
        (("edit", "try"), "tao run job.yaml"),
        (("rename", "try", "other"), "tao run --name NAME"),
        (("env", "try"), "tao plan --full"),
        (("start", "try"), "tao retry JOB"),
        (("sinfo",), "tao doctor slurm"),
        (("job", "ls"), "Did you mean tao ls?"),
        (("job",), "All jobs: tao ls"),
        (("container", "ls"), "Did you mean tao ls?"),
        (("docker", "ps", "-a"), "Did you mean tao ls?"),
        (("docker", "logs", "try"), "Did you mean tao logs?"),
        (("kubectl", "get", "pods"), "All jobs: tao ls"),
        (("system", "prune"), "Did you mean tao gc?"),
        (("system", "df"), "tao results JOB"),
        (("scontrol", "show", "job", "1"), "tao status JOB"),
        (("squeue", "-u", "me"), "Did you mean tao ls?"),
        (("info",), "tao doctor"),
        (("best", "try"), "tao results JOB --epoch best"),
        (("version",), "Did you mean tao --version?"),
        (("nvidia-smi",), "tao doctor local"),
        (("init", "run"), "tao init run.yaml"),
        (("help", "squeue"), "Did you mean tao ls?"),
        (("nodes",), "tao doctor slurm"),
        (("gpus",), "tao doctor local"),
        (("cat", "try"), "tao logs JOB"),
        (("pull", "ubuntu"), "An image is pulled when its job starts"),
        (("tag", "try", "a=b"), "tao run --label NAME=VALUE"),
        (("monitor", "try"), "tao attach JOB"),
        (("python", "train.py"), "tao run --files train.py -- python train.py"),
        (("rmi", "mybox:1"), "docker rmi NAME"),
        (("shell", "try"), "looks around beside it: tao why JOB"),
        (("scp", "try:/x", "."), "tao results JOB --fetch DIR"),
        (("pause", "try"), "tao retry JOB"),
        (("upload", "x"), "tao results JOB"),
        (("salloc",), "tao run --gpus N -- COMMAND"),
    ],
)
def test_a_verb_of_another_tool_names_the_verb_that_does_it(
    typed: Typed, args: tuple[str, ...], told: str
) -> None:
    ran = typed(*args)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err


def test_every_command_that_a_habit_names_is_one(typed: Typed) -> None:
    texts = [*INSTEAD.values(), *FLAGS_INSTEAD.values(), *FLAGS_OF_RUN.values()]
    named = {word for text in texts for word in re.findall(r"\btao ([a-z]+)", text)}
    assert named <= {*VERBS}
    flags = {
        (verb, flag)
        for text in texts
        for verb, words in re.findall(r"\btao ([a-z]+)((?: (?:--?[a-z][a-z-]*|[A-Z]+|N))*)", text)
        for flag in re.findall(r"--[a-z-]+", words)
    }
    assert {(v, flag) for v, flag in flags if flag not in typed(v, "--help").out} == set()


def test_what_to_do_instead_of_an_unknown_verb_is_what_to_do_next(typed: Typed) -> None:
    assert typed("--json", "train").error["hint"] == "Did you mean tao run?"
    assert typed("--json", "ssh").error["hint"].endswith("tao why JOB")
    assert typed("--json", "xyzzy").error["next"] == "tao --help"


@pytest.mark.parametrize(
    ("args", "command"),
    [
        (("run", "--gpus", "0", "ls -l x"), "tao run --gpus 0 -- ls -l x"),
        (("plan", "--gpus", "0", "--json", "ls -l x"), "tao plan --gpus 0 --json -- ls -l x"),
        (("run", "--gpus", "0", "ls -l | wc"), "tao run --gpus 0 -- 'ls -l | wc'"),
        (("run", "x.py", "--gpus", "0"), "tao run --gpus 0 --files x.py -- python x.py"),
        (("run", "x.py", "--lr", "3"), "tao run --files x.py -- python x.py --lr 3"),
        (("run", "-d", "x.sh", "--", "a"), "tao run -d --files x.sh -- bash x.sh a"),
        (("run", "--detach", "ls", "sub"), "tao run --detach -- ls sub"),
        (("run", "docker", "my.yaml"), "tao run --platform docker my.yaml"),
        (("plan", "my.yaml", "slurm"), "tao plan --platform slurm my.yaml"),
        (("run", "--gpus", "2", "slurm"), "tao run --platform slurm --gpus 2 job.yaml"),
        (("run", "local", "--", "ls", "-l"), "tao run --platform local -- ls -l"),
    ],
)
def test_a_mistaken_line_is_answered_with_the_whole_line_to_type(
    typed: Typed, tmp_path: Path, args: tuple[str, ...], command: str
) -> None:
    (tmp_path / "x.py").write_text("")
    ran = typed(*args)
    told = json.loads(ran.err)["error"]["hint"] if "--json" in args else ran.err
    assert (ran.code, ran.out) == (2, "")
    assert told.strip().endswith(f": {command}")


def test_a_command_of_the_program_docker_is_no_platform(typed: Typed, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        ran = typed("run", "--gpus", "0", "docker", "ps", "-a")
    assert ran.err.strip().endswith("tao run --gpus 0 -- docker ps -a")


def test_help_as_a_verb_prints_the_help(typed: Typed) -> None:
    for args, flags in ((("help",), ("--help",)), (("help", "run"), ("run", "--help"))):
        ran = typed(*args)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out == typed(*flags).out


def test_the_images_are_listed_with_ls_as_the_skills_are(typed: Typed) -> None:
    assert typed("images", "ls").out == typed("images").out

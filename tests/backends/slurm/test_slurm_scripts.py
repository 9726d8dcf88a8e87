"""The shell text of this backend, as shellcheck reads it, and how Python puts a script together."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.cluster.facts_here import ATTEMPT, BASE, facts, planned, staged
from support.shellcheck import complaints, complaints_of_text
from tao_sdk.backends import shell
from tao_sdk.backends.mounts import Mount
from tao_sdk.backends.slurm import logs, look
from tao_sdk.backends.slurm.backend import machines_script
from tao_sdk.backends.slurm.cluster import doctor, survey
from tao_sdk.backends.slurm.cluster.site import Site
from tao_sdk.backends.slurm.files import SlurmFiles
from tao_sdk.backends.slurm.images import containers, enroot_login, image_plan
from tao_sdk.backends.slurm.images.containers import Task
from tao_sdk.backends.slurm.job import activity
from tao_sdk.backends.slurm.job.paths import JobHome
from tao_sdk.backends.slurm.logs import Offsets
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.backends.slurm.scripts import handover
from tao_sdk.backends.slurm.scripts.script_files import SCRIPTS, load_script
from tao_sdk.model.errors import TaoError
from tao_sdk.model.plan import Ref
from tao_sdk.model.spec import JobSpec
from tao_sdk.transports.ssh import Answer, Ssh

FILES = sorted(SCRIPTS.glob("*.sh"))
PLAN = planned(
    JobSpec(
        command="train",
        image="nvcr.io/nvidia/tao:7.0",
        gpu_count=2,
        inputs={"train": "/lustre/it's"},
    )
)
DECISIONS = PLAN.request.decisions
GRACE = timedelta(seconds=10)
REF = Ref("slurm", "lab", BASE, "17", "17 digits.1", ATTEMPT)


class Listener(Ssh):
    """Keeps the script that it should run, and answers nothing."""

    def __init__(self) -> None:
        self.script = ""

    def run(self, script: str, stdin: bytes = b"", seconds: float = 60.0) -> Answer:
        self.script = script
        return Answer(0, b"", b"", "here")


def sent_by(ask: Callable[[Listener], Any]) -> str:
    """The script that a question sends."""
    listener = Listener()
    try:
        ask(listener)
    except TaoError:
        assert listener.script, "only its answer is missing"
    return listener.script


def submitted() -> str:
    return handover.submit_script(
        DECISIONS, ATTEMPT, ["specs"], handover.write_files_script({"specs/a": b"it's\n"})
    )


SENT: dict[str, Callable[[], str]] = {
    "submit": submitted,
    "find": lambda: handover.find_script(DECISIONS.home, ATTEMPT),
    "cancel": lambda: sent_by(lambda ssh: look.cancel_attempt(ssh, REF, GRACE, 5)),
    "cancel many": lambda: handover.cancel_many_script(
        [("17", DECISIONS.home.attempt_paths(ATTEMPT), ATTEMPT)], GRACE, 5
    ),
    "release": lambda: handover.release_script(DECISIONS.home, ATTEMPT),
    "look": lambda: sent_by(lambda ssh: look.ask_slurm(ssh, ["17", "18"])),
    "records": lambda: sent_by(lambda ssh: look.fetch_remains(ssh, [REF], over=[REF])),
    "activity": lambda: activity.activity_script(REF),
    "evidence": lambda: sent_by(lambda ssh: look.collect_evidence(ssh, REF)),
    "log": lambda: logs.read_script("/logs", "/attempt", "main", Offsets(0, 0), 5),
    "new logs": lambda: logs.read_new_script(["/logs"], [Offsets(0, 0)]),
    "survey": lambda: survey.survey_script(Site(BASE)),
    "doctor": lambda: doctor.doctor_script(Site(BASE)),
    "machines": lambda: machines_script("grizzly", BASE),
    "registries": enroot_login.list_registries_script,
    "credentials": enroot_login.add_credentials_script,
    "task": lambda: staged(PLAN, "task.sh"),
}
FILES_SENT: dict[str, Callable[[], str]] = {
    "stat": lambda: sent_by(lambda ssh: SlurmFiles(ssh).below("/results").stat("/results/a")),
    "list": lambda: sent_by(lambda ssh: SlurmFiles(ssh).below("/results").list("/results/a")),
    "read": lambda: sent_by(lambda ssh: SlurmFiles(ssh).read("/results/a")),
}


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shellcheck_has_nothing_to_say_of_a_script(path: Path) -> None:
    assert complaints([path]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SENT)
def test_a_script_that_is_sent_has_every_variable_that_it_uses(name: str) -> None:
    assert complaints_of_text(SENT[name](), only="SC2154") == []


def in_enroot() -> str:
    start = containers.build_start(
        "enroot", Task([Mount("/a b", "/c", True)]), facts(pyxis=False, programs=("enroot",))
    )
    return f'tao_image=image\n{start.task} sh "task.sh"'


def conversion() -> str:
    return image_plan.build_image_plan("nvcr.io/nvidia/tao:7.0", SlurmOptions(), facts()).files[
        "image.sbatch"
    ]


@pytest.mark.parametrize("make", [lambda: PLAN.request.script, conversion, in_enroot])
def test_a_script_that_bash_runs_has_every_variable_that_it_uses(make: Callable[[], str]) -> None:
    assert complaints_of_text(make(), "bash", only="SC2154") == []


def test_every_script_is_sent_by_somebody() -> None:
    sent = "\n".join(
        [
            *(make() for make in (SENT | FILES_SENT).values()),
            PLAN.request.script,
            conversion(),
            in_enroot(),
        ]
    )
    unquoted = sent.replace("'\"'\"'", "'")
    assert [path.stem for path in FILES if load_script(path.stem) not in unquoted] == []


def test_a_script_is_sent_without_its_head_and_the_words_for_shellcheck() -> None:
    for path in FILES:
        head, _, _ = path.read_text().partition("\n\n")
        assert re.match(r"# shellcheck shell=(sh|bash)", head)
        assert all(line.startswith("#") for line in head.splitlines())
        assert "shellcheck" not in load_script(path.stem)


ODD = ["", "a b", "it's", "$(touch ran)", "`touch ran`", "a\nb", "-n", "a\\", '"', "*", "~"]


def test_of_many_canceled_jobs_those_that_still_run_are_noted_as_killed(tmp_path: Path) -> None:
    """By that mark a job is told to have been killed when its grace was over."""
    home = JobHome(str(tmp_path))
    paths = {
        job_id: home.attempt_paths(replace(ATTEMPT, job_id=f"job-000000000{job_id}"))
        for job_id in ("1", "11", "2")
    }
    for at in paths.values():
        Path(at.killed_file).parent.mkdir(parents=True)
    script = f"started=' 11 2'\n{handover.note_killed(paths)}"
    ran = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("", "")
    noted = [job_id for job_id, at in paths.items() if Path(at.killed_file).exists()]
    assert noted == ["11", "2"]


def test_a_value_of_a_variable_is_taken_literally(tmp_path: Path) -> None:
    for value in ODD:
        text = (
            f'{shell.assign_variables({"a": value})}\n{shell.export_variables({"B": value})}\nprintf "%s|%s" '
            '"$a" "$B"'
        )
        done = subprocess.run(
            ["sh", "-c", text], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stdout == f"{value}|{value}"
    assert list(tmp_path.iterdir()) == []

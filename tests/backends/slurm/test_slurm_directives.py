"""The directives of a batch script: from options and from `native`, without a way to hide a command."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from support.cluster.facts_here import (
    ATTEMPT,
    IMAGE,
    directives,
    job,
    planned,
    staged,
)
from tao_sdk.backends.slurm import render
from tao_sdk.backends.slurm.cluster.site import read_site
from tao_sdk.model.errors import SpecError
from tao_sdk.model.settings import Settings

# Options


def test_every_option_becomes_its_directive() -> None:
    told = directives(
        planned(
            job(memory="64g"), account="other", qos="normal", constraint="a100&nvlink",
            reservation="r1", nodelist="n[1-2],n4",
            exclude="n3", requeue=False, mail_user="me@example.org",
        )
    )  # fmt: skip
    wanted = {"account": "other", "qos": "normal", "constraint": "a100&nvlink", "reservation": "r1",
         "exclude": "n3",
              "nodelist": "n[1-2],n4", "mail-user": "me@example.org", "mem": "65536M", "no-requeue": ""}  # fmt: skip
    assert wanted.items() <= told.items()
    assert "requeue" not in told


def test_native_lays_directives_over_ours_and_cannot_touch_what_a_job_is_found_by() -> None:
    told = directives(
        planned(
            replace(
                job(),
                native={
                    "mail-type": "END",
                    "--exclusive": True,
                    "account": None,
                    "time": "2:00:00",
                },
            )
        )
    )
    assert (told["mail-type"], told["exclusive"], told["time"]) == ("END", "", "2:00:00")
    for name in ("job-name", "comment", "output", "array", "dependency"):
        with pytest.raises(SpecError, match=name):
            planned(replace(job(), native={name: "x"}))


@pytest.mark.parametrize(
    "option",
    [
        "partition",
        "account",
        "qos",
        "constraint",
        "reservation",
        "nodelist",
        "exclude",
        "mail_user",
    ],
)
@pytest.mark.parametrize(
    "value", ["a b", "a\ntouch /tmp/x", "$(id)", "a;id", "a'b", 'a"b', "a`id`", "-x y"]
)
def test_an_option_that_could_hide_a_command_is_refused(option: str, value: str) -> None:
    with pytest.raises(SpecError, match=option):
        planned(job(), **{option: value})


@pytest.mark.parametrize(
    "native",
    [{"mail-type": "a b"}, {"a b": "c"}, {"mail-type": "x\n#SBATCH --uid=0"}, {"x$(id)": "y"}],
)
def test_a_native_directive_that_could_hide_a_command_is_refused(native: dict[str, str]) -> None:
    with pytest.raises(SpecError, match="native"):
        planned(replace(job(), native=native))


@pytest.mark.parametrize("base", ["relative", "/a b", "/a\nb", "/a$(id)", "/a%j", "/a'b", "/a;b"])
def test_a_base_directory_that_slurm_would_not_take_literally_is_refused(base: str) -> None:
    with pytest.raises(SpecError, match="SLURM_BASE_RESULTS_DIR"):
        read_site(Settings({"SLURM_BASE_RESULTS_DIR": base, "HOME": "/nonexistent"}))


def test_the_scripts_are_shell_whatever_the_job_holds(tmp_path: Path) -> None:
    odd = "a b'c\"d$(touch x)`id`\\;&|\n#SBATCH --uid=0"
    spec = job(
        image=IMAGE,
        labels={odd: odd},
        env_vars={"ODD": odd},
        mounts=[{"source": f"/data/{odd}".replace("\n", ""), "target": "/data"}],
    )
    plan = planned(replace(spec, command=odd), use_sqsh=False)
    for name in (".sbatch", "task.sh"):
        done = subprocess.run(
            ["bash", "-n"], input=staged(plan, name), text=True, capture_output=True
        )
        assert done.returncode == 0, done.stderr
    assert directives(plan) == directives(planned(job(image=IMAGE), use_sqsh=False))
    text = render.environment_file(plan.request.decisions, ATTEMPT, {})
    shown = subprocess.run(
        ["sh", "-c", f'{text} printf %s "$ODD"'], capture_output=True, text=True, cwd=tmp_path
    ).stdout
    assert shown == odd
    assert list(tmp_path.iterdir()) == []

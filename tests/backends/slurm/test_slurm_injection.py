"""Whatever is written in a job, nothing of it is run by a shell on the cluster that was not meant
to be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.cluster.cluster_here import SHARED, Cluster
from support.cluster.cluster_images import PYTHON
from tao_sdk.client import Client
from tao_sdk.model.errors import TaoError
from tao_sdk.model.settings import Settings
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

MARK = f"{SHARED}/executed"  # there when something was run that should not have been
# Each would make the mark where a shell reads it, or where it ends a quote, a line, a directive.
TRAPS = {
    "substitution": f"$(touch {MARK})",
    "backquotes": f"`touch {MARK}`",
    "semicolon": f"a;touch {MARK};b",
    "newline": f"a\ntouch {MARK}\n",
    "single quote": f"a'; touch {MARK}; '",
    "double quote": f'a"; touch {MARK}; "',
    "directive": f"a\n#SBATCH --wrap=touch {MARK}",
    "spaces": f"a b --wrap=touch {MARK}",
    "option": f"--wrap=touch {MARK}",
}


def as_env_name(trap: str) -> dict[str, Any]:
    return {"env_vars": {trap: "1"}}


def as_mount_source(trap: str) -> dict[str, Any]:
    return {"mounts": [{"source": f"{SHARED}/{trap}", "target": "/data"}]}


def as_mount_target(trap: str) -> dict[str, Any]:
    return {"mounts": [{"source": SHARED, "target": f"/{trap}"}]}


def as_image(trap: str) -> dict[str, Any]:
    return {"image": f"x/y:{trap}"}


def as_image_file(trap: str) -> dict[str, Any]:
    return {"image": f"{SHARED}/{trap}.sqsh"}


def as_input(trap: str) -> dict[str, Any]:
    return {
        "specs": {"data": f"lustre://{SHARED}/{trap}"},
        "inputs": {"data": {"type": "file"}},
        "config_format": "json",
    }


def as_what_is_only_kept(trap: str) -> dict[str, Any]:
    return {"name": trap, "labels": {"odd": trap}, "specs": {"odd": trap}, "config_format": "json"}


def as_native(trap: str) -> dict[str, Any]:
    return {"native": {"mail-type": trap}}


def as_native_name(trap: str) -> dict[str, Any]:
    return {"native": {trap: "1"}}


FIELDS = [as_env_name, as_mount_source, as_mount_target, as_image, as_image_file, as_input,
     as_what_is_only_kept,
          as_native, as_native_name]  # fmt: skip
OPTIONS = [
    "partition",
    "account",
    "qos",
    "constraint",
    "reservation",
    "nodelist",
    "exclude",
    "mail_user",
]
SETTINGS = ["SLURM_PARTITION", "SLURM_ACCOUNT", "SLURM_BASE_RESULTS_DIR", "SLURM_CONTAINER_MOUNTS",
     "SLURM_CONVERSION_PARTITION",
            "SLURM_SQSH_CACHE_DIR", "SLURM_HOSTNAME", "SLURM_USER"]  # fmt: skip


@pytest.fixture
def mark(cluster: Cluster) -> Callable[[], bool]:
    there = cluster.path(MARK)
    there.unlink(missing_ok=True)
    return there.exists


def test_no_field_of_a_job_is_run_by_a_shell(client: Client, mark: Callable[[], bool]) -> None:
    """What is refused is refused at submit, in words; what is taken is taken literally, and its job
    runs to its end.
    """
    taken: dict[str, list[str]] = {field.__name__: [] for field in FIELDS}
    for field in FIELDS:
        for trap in TRAPS.values():
            given = {
                "image": PYTHON,
                "command": "cat {config_path}" if "specs" in field(trap) else "true",
                **field(trap),
            }
            try:
                taken[field.__name__].append(
                    client.submit(JobSpec(gpu_count=0, cpus=1, **given), "slurm").job.id
                )
            except TaoError as error:
                assert str(error)
    ended = {
        job.id: job
        for job in client.wait_all([job for jobs in taken.values() for job in jobs], timeout=300)
    }
    assert all(job.status.terminal for job in ended.values())
    assert not mark()
    assert [ended[job].status for job in taken["as_what_is_only_kept"]] == [Status.COMPLETE] * len(
        TRAPS
    )
    for field in (as_env_name, as_native_name):
        assert taken[field.__name__] == [], "no variable and no directive has such a name"


def test_any_value_of_the_environment_arrives_literally(
    client: Client, mark: Callable[[], bool]
) -> None:
    values = {
        f"ODD_{i}{kind}": trap for i, trap in enumerate(TRAPS.values()) for kind in ("", "_TOKEN")
    }
    show = (
        "import os, sys; sys.stdout.write(chr(0).join(os.environ[name] for name in sys.argv[1:]))"
    )
    command = f"python3 -c '{show}' {' '.join(values)}"
    job = client.submit(
        JobSpec(image=PYTHON, command=command, gpu_count=0, env_vars=values), "slurm"
    ).job
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE
    assert b"".join(client.follow_logs(job.id)).decode().split("\0") == list(values.values())
    assert not mark()


def test_a_variable_of_the_job_may_have_the_name_of_one_that_our_scripts_use(
    client: Client,
) -> None:
    names = ("a", "d", "l", "job", "name", "node", "rank", "shell", "base", "words")
    shown = " ".join(f"${name}" for name in names)
    command = f'env | grep -c -E "^({"|".join(names)})=mine$"; echo "{shown}: $TAO_RANK $NODE_RANK"'
    job = client.submit(
        JobSpec(command=command, gpu_count=0, cpus=1, env_vars=dict.fromkeys(names, "mine")),
        "slurm",
    ).job
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE
    assert client.get_job_logs(job.id).splitlines() == [
        str(len(names)),
        " ".join(["mine"] * len(names)) + ": 0 0",
    ]


@pytest.mark.parametrize("option", OPTIONS)
def test_no_option_is_run_by_a_shell_or_becomes_another(
    option: str, client: Client, mark: Callable[[], bool], cluster: Cluster
) -> None:
    for trap in TRAPS.values():
        with pytest.raises(TaoError):
            client.submit(
                JobSpec(image=PYTHON, command="true", gpu_count=0), "slurm", {option: trap}
            )
    assert client.list_jobs() == []
    assert cluster.jobs() == []
    assert not mark()


@pytest.mark.parametrize("variable", SETTINGS)
def test_no_setting_is_run_by_a_shell(
    variable: str, surroundings: dict[str, str], mark: Callable[[], bool], cluster: Cluster
) -> None:
    for trap in (TRAPS[name] for name in ("substitution", "directive", "single quote")):
        with Client(settings=Settings({**surroundings, variable: trap})) as client:
            image = "x/y:1" if "CONVERSION" in variable or "SQSH" in variable else PYTHON
            with pytest.raises(TaoError):
                client.submit(JobSpec(image=image, command="true", gpu_count=0), "slurm")
    assert cluster.jobs() == []
    assert not mark()


def test_a_path_with_spaces_quotes_and_dollars_is_looked_for_literally(
    client: Client, cluster: Cluster
) -> None:
    odd = 'it\'s a "set" $(id)'
    (cluster.path(SHARED) / odd).mkdir(exist_ok=True)
    (cluster.path(SHARED) / odd / "a").write_text("read\n")
    job = client.submit(
        JobSpec(
            image=PYTHON,
            command="cat /data/a",
            gpu_count=0,
            mounts=[{"source": f"{SHARED}/{odd}", "target": "/data"}],
        ),
        "slurm",
    ).job
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE
    assert client.get_job_logs(job.id) == "read\n"

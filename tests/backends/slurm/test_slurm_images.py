"""Images on the cluster: their names, the one conversion that serves many jobs, and
what runs them.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import datetime, timezone
from itertools import count
from typing import Any

import pytest

from support.cluster import cluster_images
from support.cluster.cluster_here import SHARED, Cluster, until
from support.cluster.cluster_images import BUSYBOX, HUB_NAME, NGC_KEY, NGC_NAME, PYTHON, Registry
from tao_sdk.backends import image_name
from tao_sdk.backends.mounts import Mount
from tao_sdk.backends.slurm.cluster.site import Site
from tao_sdk.backends.slurm.facts import Partition, SlurmFacts
from tao_sdk.backends.slurm.images import containers, enroot_login, image_plan
from tao_sdk.backends.slurm.images.containers import Task
from tao_sdk.backends.slurm.options import SlurmOptions
from tao_sdk.backends.slurm.scripts.script_files import load_script
from tao_sdk.client import Client
from tao_sdk.model.errors import CredentialError, Refused, SpecError
from tao_sdk.model.spec import JobSpec
from tao_sdk.model.status import Status

FACTS = SlurmFacts(
    site=Site(base=SHARED, conversion_memory_gb=1, conversion_minutes=5),
    seen_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
    base=SHARED,
    partitions={"cpu": Partition("cpu")},
    pyxis=True,
    programs=("enroot",),
)
DIGEST = "sha256:" + "0123456789abcdef" * 4
numbers = count(1)


# Names


@pytest.mark.parametrize(
    ("given", "pyxis"),
    [
        ("/images/tao.sqsh", "/images/tao.sqsh"),
        ("lustre:///images/tao.sqsh", "/images/tao.sqsh"),
        ("nvcr.io#nvidia/tao/tao-toolkit:7", "nvcr.io#nvidia/tao/tao-toolkit:7"),
        ("docker://nvcr.io#nvidia/tao/tao-toolkit:7", "nvcr.io#nvidia/tao/tao-toolkit:7"),
        ("nvcr.io/nvidia/tao/tao-toolkit:7", "nvcr.io#nvidia/tao/tao-toolkit:7"),
        ("nvidia/cuda:12.0", "nvidia/cuda:12.0"),
        ("docker.io/nvidia/cuda:12.0", "nvidia/cuda:12.0"),
        ("ubuntu", "ubuntu:latest"),
        ("localhost:5000/tao:1", "localhost:5000#tao:1"),
        (f"nvcr.io/nvidia/tao@{DIGEST}", f"nvcr.io#nvidia/tao@{DIGEST}"),
        (f"nvcr.io/nvidia/tao:7@{DIGEST}", f"nvcr.io#nvidia/tao@{DIGEST}"),
    ],
)
def test_each_documented_form_of_a_name_means_what_it_says(given: str, pyxis: str) -> None:
    assert image_name.read(given).for_enroot == pyxis


@pytest.mark.parametrize(
    "name",
    ["x/y:1;touch /p;true", "$(id)", "a b", "X", "a\nb", "a:1:2", "re gistry#a", "", "/a\n.sqsh"],
)
def test_what_is_no_name_of_an_image_is_refused(name: str) -> None:
    with pytest.raises(SpecError):
        image_name.read(name)


def test_no_two_images_have_one_file() -> None:
    names = ["a/b:c", "a_b:c", "a/b_c", "a.io/b:c", "a.io:5/b:c", f"a/b@{DIGEST}", "a-b:c", "a/b-c"]
    assert len({image_name.read(name).for_file for name in names}) == len(names)


@pytest.mark.parametrize("path", ["/a,b", "/a:b", "/a\nb"])
def test_a_path_that_would_be_read_as_two_mounts_is_refused(path: str) -> None:
    with pytest.raises(SpecError):
        containers.build_start("pyxis", Task([Mount(path, "/data")]), FACTS)


# What runs them, on golden text: apptainer is not to be had here


def test_apptainer_is_started_with_mounts_and_gpus() -> None:
    facts = replace(FACTS, pyxis=False, programs=("singularity",))
    started = containers.build_start(
        "apptainer", Task([Mount("/lustre", "/lustre"), Mount("/a b", "/c", True)], gpus=2), facts
    )
    assert started.srun == ""
    assert started.task == (
        "singularity exec --no-home --writable-tmpfs --nv --bind /lustre:/lustre --bind '/a "
        'b:/c:ro\' "$tao_image"'
    )


@pytest.mark.parametrize(
    ("site", "partitions", "wanted"),
    [("", ("cpu", "polar"), "cpu"), ("mine", ("cpu", "polar"), "mine"), ("", ("polar",), None)],
)
def test_conversions_run_in_the_sites_partition_for_them_else_the_documented_one_else_the_clusters_default(
    site: str, partitions: tuple[str, ...], wanted: str | None
) -> None:
    known = {name: Partition(name, default=name == "polar") for name in partitions}
    facts = replace(FACTS, partitions=known, site=replace(FACTS.site, conversion_partition=site))
    script = image_plan.build_image_plan("nvcr.io/nvidia/tao:7", SlurmOptions(), facts).files[
        "image.sbatch"
    ]
    named = [
        line.partition("=")[2]
        for line in script.splitlines()
        if line.startswith("#SBATCH --partition=")
    ]
    assert named == ([wanted] if wanted else [])


def test_apptainer_converts_to_a_file_of_its_own_kind() -> None:
    facts = replace(FACTS, pyxis=False, programs=("apptainer",))
    planned = image_plan.build_image_plan("nvcr.io/nvidia/tao:7", SlurmOptions(), facts)
    assert (planned.runtime, planned.reference) == ("apptainer", "docker://nvcr.io/nvidia/tao:7")
    assert f"image={SHARED}/images/nvcr.io+nvidia+tao=7.sif\n" in planned.files["image.sbatch"]
    assert (
        'apptainer pull "$partial" docker://nvcr.io/nvidia/tao:7' in planned.files["image.sbatch"]
    )
    assert planned.notes == ("The cluster has no Pyxis: apptainer runs the image.",)


def test_a_cluster_that_can_run_no_image_is_told_before_submit() -> None:
    (found,) = containers.runtime_findings(SlurmOptions(), replace(FACTS, pyxis=False, programs=()))
    assert (found.severity.value, found.code) == ("error", "slurm.no_pyxis")
    assert "--container-runtime none" in found.fix


def test_pyxis_that_is_asked_for_and_not_there_is_told_with_what_is() -> None:
    (found,) = containers.runtime_findings(
        SlurmOptions(container_runtime="pyxis"), replace(FACTS, pyxis=False)
    )
    assert (found.severity.value, found.fix) == ("error", "Use --container-runtime enroot")


def test_without_a_runtime_the_command_runs_on_the_node_and_the_plan_says_so() -> None:
    planned = image_plan.build_image_plan(
        "nvcr.io/nvidia/tao:7", SlurmOptions(container_runtime="none"), FACTS
    )
    assert planned.files == {}
    assert planned.notes == (
        "The image nvcr.io/nvidia/tao:7 is not used: the command runs on the node itself.",
    )


def test_latest_is_used_as_converted_unless_it_is_to_be_converted_again() -> None:
    converted = replace(FACTS, images=("x.io+a=latest.sqsh",))
    kept, anew = (
        image_plan.build_image_plan("x.io/a", SlurmOptions(force_reconvert_latest=force), converted)
        for force in (False, True)
    )
    assert image_plan.build_image_plan("x.io/a", SlurmOptions(), FACTS).notes == ()
    assert kept.notes == (
        "x.io/a:latest is used as last converted; --force-reconvert-latest "
        "(force_reconvert_latest) converts it anew.",
    )
    assert anew.notes == ("x.io/a:latest is converted anew.",)
    pinned = image_plan.build_image_plan(
        "x.io/a:1", SlurmOptions(force_reconvert_latest=True), FACTS
    )
    assert "tao_convert=once\n" in pinned.prepare


# On the cluster


@pytest.fixture
def registries(cluster: Cluster) -> tuple[Registry, Registry]:
    cluster_images.place(cluster)
    for each in cluster.path(SHARED).glob("images/*"):
        each.unlink()
    return cluster_images.registries(cluster)


class Job:
    """A job that runs a command in an image, made of the same texts as the backend's."""

    def __init__(
        self, cluster: Cluster, image: str, command: str, facts: SlurmFacts = FACTS, **options: Any
    ) -> None:
        self.cluster = cluster
        self.folder = f"{SHARED}/try-{next(numbers)}"
        chosen = SlurmOptions(**options)
        planned = image_plan.build_image_plan(image, chosen, facts)
        mounts = [Mount("/lustre", "/lustre")]
        start = containers.build_start(planned.runtime, Task(mounts), facts)
        script = (
            f"#!/bin/bash\ntao_image=$(cat {self.folder}/image)\n"
            f"srun --mem=256M {start.srun} {start.task} sh -c {shlex.quote(command)}\n"
        )
        there = cluster.path(self.folder)
        cluster.login(f"rm -rf {self.folder}; mkdir -p {self.folder}")
        for name, text in {**planned.files, "job.sbatch": script}.items():
            (there / name).write_text(text)
        words = f"-o {self.folder}/out --mem=1G"
        self.submitted = cluster.login(
            f"cd {self.folder}\nafter=\n{load_script('answers')}\n{planned.prepare}\nsbatch "
            f"--parsable $after {words} job.sbatch"
        )
        self.slurm_id = self.submitted.stdout.strip()

    def dependency(self) -> str:
        return self.cluster.ask("squeue", "-h", "-o", "%E", "-j", self.slurm_id).stdout.strip()

    def end(self) -> str:
        """Its state and what it printed."""
        until(lambda: self.slurm_id not in self.cluster.jobs(), 60, self.cluster.words)
        until(lambda: self.state() not in ("", "PENDING", "RUNNING", "COMPLETING"))
        return self.state()

    def state(self) -> str:
        return (
            self.cluster.ask("sacct", "-XnPj", self.slurm_id, "-o", "State")
            .stdout.split(" ")[0]
            .strip()
        )

    @property
    def output(self) -> str:
        return (self.cluster.path(self.folder) / "out").read_text()


def test_an_image_is_converted_once_for_all_jobs_and_nobody_waits_at_the_client(
    cluster: Cluster, registries: tuple[Registry, Registry]
) -> None:
    public, _ = registries
    before = public.pulls(HUB_NAME)
    first, second = (
        Job(cluster, HUB_NAME, "echo in $(cat /etc/passwd | head -n 1)") for _ in range(2)
    )
    assert (first.end(), second.end()) == ("COMPLETED", "COMPLETED"), first.submitted.stderr
    assert first.output == second.output == "in root:x:0:0:root:/root:/bin/sh\n"
    third = Job(cluster, HUB_NAME, "true")
    assert third.dependency() in ("", "(null)")
    assert third.end() == "COMPLETED"
    assert public.pulls(HUB_NAME) == before + 1
    assert [each.name for each in cluster.path(f"{SHARED}/images").glob("*.sqsh*")] == [
        "tests+busybox=1.sqsh"
    ]


def test_two_conversions_of_one_image_come_one_after_the_other_and_the_second_has_nothing_to_do(
    cluster: Cluster, registries: tuple[Registry, Registry]
) -> None:
    public, _ = registries
    before = public.pulls(HUB_NAME)
    script = image_plan.build_image_plan(HUB_NAME, SlurmOptions(), FACTS).files["image.sbatch"]
    folder = f"{SHARED}/two-conversions"
    cluster.login(f"mkdir -p {folder} {SHARED}/images")
    (cluster.path(folder) / "image.sbatch").write_text(script)
    both = cluster.login(
        f"cd {folder}; sbatch --parsable image.sbatch; sbatch --parsable image.sbatch"
    ).stdout.split()

    def ended() -> bool:
        states = cluster.ask("sacct", "-XnPj", ",".join(both), "-o", "State").stdout.split()
        return states == ["COMPLETED"] * 2

    until(ended)
    assert public.pulls(HUB_NAME) == before + 1


def test_a_job_whose_image_cannot_be_converted_ends_instead_of_waiting_and_the_reason_is_kept(
    cluster: Cluster, registries: tuple[Registry, Registry]
) -> None:
    job = Job(cluster, NGC_NAME, "true")
    assert job.dependency().startswith("afterok:")
    assert job.end() == "CANCELLED"
    log = image_plan.build_image_plan(NGC_NAME, SlurmOptions(), FACTS).log
    assert "Could not process JSON input" in cluster.path(log).read_text()
    assert not list(cluster.path(f"{SHARED}/images").glob("*.sqsh*"))


def test_a_private_image_is_converted_once_enroot_has_credentials_that_came_through_stdin(
    cluster: Cluster, registries: tuple[Registry, Registry]
) -> None:
    home = cluster.folder / "home/taouser/.config/enroot"
    cluster.login(
        "mkdir -p ~/.config/enroot; echo 'machine other.io login me password mine' > "
        "~/.config/enroot/.credentials"
    )
    asked = cluster.login(enroot_login.list_registries_script())
    assert asked.stdout.split() == ["other.io"]
    cluster.login(
        enroot_login.add_credentials_script(), given=enroot_login.credential_lines("an-older-key")
    )
    cluster.login(
        enroot_login.add_credentials_script(), given=enroot_login.credential_lines(NGC_KEY)
    )
    try:
        assert cluster.login(enroot_login.list_registries_script()).stdout.split() == [
            "other.io",
            "nvcr.io",
            "authn.nvidia.com",
        ]
        assert "an-older-key" not in (home / ".credentials").read_text()
        assert ((home / ".credentials").stat().st_mode & 0o777,
             [each.name for each in home.iterdir()]) == (
            0o600, [".credentials"]
        )  # fmt: skip
        job = Job(cluster, NGC_NAME, "echo here")
        assert (job.end(), job.output) == ("COMPLETED", "here\n")
        assert NGC_KEY not in cluster.log
    finally:
        (home / ".credentials").unlink()


def test_a_key_with_a_blank_is_refused() -> None:
    with pytest.raises(CredentialError):
        enroot_login.credential_lines("two words")


def test_where_no_conversion_can_be_started_the_job_fetches_the_image_and_says_so(
    cluster: Cluster, registries: tuple[Registry, Registry]
) -> None:
    facts = replace(FACTS, site=replace(FACTS.site, conversion_partition="nowhere"))
    job = Job(cluster, HUB_NAME, "echo here", facts)
    assert "tao: warning: the image is not converted" in job.submitted.stderr
    assert "invalid partition specified: nowhere" in job.submitted.stderr
    assert job.end() == "COMPLETED"
    assert job.output.endswith("here\n")


def test_latest_is_converted_again_when_asked_and_running_jobs_keep_a_whole_file(
    cluster: Cluster, registries: tuple[Registry, Registry]
) -> None:
    public, _ = registries
    name = HUB_NAME.replace(":1", ":latest")
    public.push(cluster_images.dockerd_here.busybox_root(), name)
    counts: list[int] = []
    for force in (False, False, True):
        job = Job(cluster, name, "true", force_reconvert_latest=force)
        assert job.end() == "COMPLETED"
        counts.append(public.pulls(name))
    assert counts == [1, 1, 2]


@pytest.mark.parametrize("image", [PYTHON, BUSYBOX])
def test_a_file_is_used_as_it_is(
    image: str, cluster: Cluster, registries: tuple[Registry, Registry]
) -> None:
    job = Job(cluster, image, "command -v python3; ls -d /lustre/fsw")
    assert job.dependency() in ("", "(null)")
    assert job.end() == "COMPLETED"
    assert job.output.splitlines() == [
        *(["/usr/bin/python3"] if image == PYTHON else []),
        "/lustre/fsw",
    ]


def test_enroot_alone_runs_an_image_where_there_is_no_pyxis(
    cluster: Cluster, registries: tuple[Registry, Registry]
) -> None:
    facts = replace(FACTS, pyxis=False)
    with cluster.as_site(pyxis=False):
        job = Job(cluster, HUB_NAME, "ls -d /lustre/fsw; echo $SLURM_PROCID; exit 7", facts)
        assert job.end() == "FAILED"
    assert job.output.splitlines()[:2] == ["/lustre/fsw", "0"]
    assert not list((cluster.folder / "machines").glob("*/enroot-*/*"))


def test_a_job_of_the_sdk_whose_image_cannot_be_had_is_an_error_with_the_registrys_words(
    client: Client, registries: tuple[Registry, Registry]
) -> None:
    job = client.submit(JobSpec(image=NGC_NAME, command="true", gpu_count=0), "slurm").job
    assert client.wait(job.id, timeout=300).status is Status.ERROR
    diagnosis = client.diagnose(job.id)
    assert diagnosis is not None
    assert (diagnosis.rule, diagnosis.retryable) == ("slurm.registry_login", False)
    assert any("Could not process JSON input" in event.message for event in diagnosis.events)


@pytest.mark.usefixtures("patient_ssh")
def test_a_job_of_the_sdk_and_the_conversion_of_its_image_are_handed_over_in_one_round_trip(
    cluster: Cluster, client: Client, registries: tuple[Registry, Registry]
) -> None:
    client.check_path("/lustre", "slurm")  # the connection is open
    before = cluster.round_trips()
    job = client.submit(
        JobSpec(image=HUB_NAME, command="head -n 1 /etc/passwd", gpu_count=0), "slurm"
    ).job
    assert cluster.round_trips() - before == 1
    assert client.wait(job.id, timeout=300).status is Status.COMPLETE
    assert client.get_job_logs(job.id) == "root:x:0:0:root:/root:/bin/sh\n"


def test_a_job_on_a_cluster_that_has_lost_pyxis_is_an_error_that_says_so_and_the_next_is_refused(
    cluster: Cluster, client: Client, surroundings: dict[str, str]
) -> None:
    spec = JobSpec(image=PYTHON, command="true", gpu_count=0)
    client.plan(spec, "slurm")  # what is known of the cluster is from before
    with cluster.as_site(pyxis=False, enroot=False):
        job = client.submit(spec, "slurm").job
        assert client.wait(job.id, timeout=300).status is Status.ERROR
        found = client.diagnose(job.id)
        assert found is not None
        assert (found.rule, found.retryable) == ("slurm.no_pyxis", False)
        for kept in (client.settings.state_dir / "slurm").glob("*.facts.json"):
            kept.unlink()
        with pytest.raises(Refused, match="cannot run images"):
            client.submit(spec, "slurm")

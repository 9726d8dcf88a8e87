"""The documents' API, on the platform that every machine has."""

from __future__ import annotations

import json
import os
import pickle
import warnings
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import numpy
import pytest

from tao_sdk import Client, JobSpec, Secret, TaoWarning
from tao_sdk.client import PlatformSDK
from tao_sdk.model.errors import (
    CredentialError,
    Refused,
    SpecError,
    TaoError,
    UsageError,
    WaitTimeout,
)
from tao_sdk.model.fields import FieldError
from tao_sdk.model.job import AttemptRow, Job
from tao_sdk.model.plan import Attempt
from tao_sdk.model.settings import Settings
from tao_sdk.platforms.docker import DockerSDK
from tao_sdk.platforms.kubernetes import KubernetesSDK
from tao_sdk.platforms.local import LocalSDK
from tao_sdk.platforms.slurm import SlurmSDK
from tao_sdk.script_runner import build_entrypoint


def test_a_command_without_inputs_and_outputs_runs_as_it_is(sdk: LocalSDK) -> None:
    job = sdk.create_job("any/image", "echo '{config_path}' $TAO_JOB_ID", gpu_count=0)
    assert sdk.wait(job.id, timeout=300).status == "Complete"
    assert sdk.get_job_logs(job.id) == f"{{config_path}} {job.id}\n"
    assert (job.image, job.platform) == ("any/image", "local")


def test_inputs_and_outputs_wrap_the_command(sdk: LocalSDK, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "data.txt").write_text("21")
    command = f"echo $(( $(cat {tmp_path}/data/data.txt) * 2 )) > {tmp_path}/made/answer.txt"
    job = sdk.create_job(
        "", command, 0, None, {f"{tmp_path}/data": f"{tmp_path}/in"}, [f"{tmp_path}/made/"]
    )
    assert sdk.wait(job.id, timeout=300).status == "Complete", sdk.get_job_logs(job.id)
    assert (Path(sdk.get_job_results_dir(job.id)) / "made" / "answer.txt").read_text() == "42\n"


def test_an_input_that_is_not_there_is_an_error_before_anything_runs(
    sdk: LocalSDK, tmp_path: Path
) -> None:
    with pytest.raises((Refused, SpecError), match="nowhere"):
        sdk.create_job(
            "", "touch ran", 0, inputs={f"{tmp_path}/data": f"{tmp_path}/nowhere"}, outputs=[]
        )
    assert sdk.list_jobs() == []


def test_backend_details_hold_the_documents_names_and_the_options(
    sdk: LocalSDK, tmp_path: Path
) -> None:
    details = {"backend_type": "local", "num_gpu": 0, "venv_path": "", "labels": {"a": "b"}}
    job = sdk.create_job("", "true", backend_details=details)
    assert (job.gpu_count, job.labels, job.backend_details["num_gpu"]) == (0, {"a": "b"}, 0)


DETAILS = {
    DockerSDK: {"backend_type": "local-docker", "gpu_ids": [0], "network": "lab"},
    KubernetesSDK: {"backend_type": "k8s", "namespace": "lab", "queue": "night"},
    SlurmSDK: {"backend_type": "slurm", "partition": "polar", "cluster_name": "lab"},
}


@pytest.mark.parametrize("platform", DETAILS)
def test_backend_details_reach_the_options_of_their_platform(
    platform: type[PlatformSDK], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a place that does not answer: what is asked of it is seen before."""
    asked: list[tuple[JobSpec, dict[str, Any]]] = []

    def submit(_: object, spec: JobSpec, place: str, options: dict[str, Any], **more: Any) -> None:
        asked.append((spec, options))
        raise Refused(place)

    monkeypatch.setattr(platform, "submit", submit)
    environ = {"HOME": str(tmp_path), "TAO_SDK_STATE_DIR": str(tmp_path / "state")}
    details = {**DETAILS[platform], "num_gpu": 2, "labels": {"a": "b"}}
    with platform(settings=Settings(environ)) as sdk:
        with pytest.raises(Refused):
            sdk.create_job("image", "true", backend_details=details)
        for key in ("venv_path", *(() if platform is SlurmSDK else ("cluster_name",))):
            with pytest.raises(SpecError, match=f"unknown key '{key}'"):
                sdk.create_job("image", "true", backend_details={key: "x"})
        with pytest.raises(SpecError, match=f"This SDK runs jobs on {platform.platform}"):
            sdk.create_job("image", "true", backend_details={"backend_type": "local"})
    [(spec, options)] = asked
    assert (spec.gpu_count, spec.labels) == (2, {"a": "b"})
    ours = {"backend_type", "cluster_name"}
    assert options == {name: DETAILS[platform][name] for name in DETAILS[platform].keys() - ours}


@pytest.mark.parametrize(
    ("details", "words"),
    [
        ({"backend_type": "slurm"}, "This SDK runs jobs on local"),
        ({"gpu_idx": [0]}, "unknown key 'gpu_idx'. Did you mean gpu_ids?"),
        ({"cluster_name": "x"}, "unknown key 'cluster_name'"),
        ({"labels": {"a": "c"}}, "Say it once"),
    ],
)
def test_backend_details_that_make_no_sense_are_refused(
    sdk: LocalSDK, details: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        sdk.create_job("", "touch ran", gpu_count=0, labels={"a": "b"}, backend_details=details)
    assert sdk.list_jobs() == []


@pytest.mark.parametrize(
    ("arguments", "details"),
    [
        ({"image": "a"}, {"image": "b"}),
        ({"command": "echo mine"}, {"command": "echo other"}),
        ({"gpu_count": 0}, {"num_gpu": -1}),
        ({"env_vars": {"A": "1"}}, {"env_vars": {"A": "2"}}),
        ({"inputs": []}, {"inputs": ["/x"]}),
    ],
    ids="-".join,
)
def test_backend_details_that_differ_from_a_named_argument_are_refused(
    sdk: LocalSDK, arguments: dict[str, Any], details: dict[str, Any]
) -> None:
    with pytest.raises(SpecError, match="Say it once"):
        sdk.create_job(**{"command": "true", **arguments}, backend_details=details)
    assert sdk.list_jobs() == []


def test_backend_details_may_say_what_no_argument_does_or_the_same(sdk: LocalSDK) -> None:
    details = {"num_gpu": 0, "command": "true", "image": "a", "env_vars": {"A": "1"}}
    job = sdk.create_job(image="a", env_vars={"A": "1"}, backend_details=details)
    assert (job.image, job.gpu_count) == ("a", 0)


def test_what_backend_details_say_twice_is_not_shown(sdk: LocalSDK) -> None:
    with pytest.raises(SpecError) as error:
        sdk.create_job("", "true", 0, {"A": "1"}, backend_details={"env_vars": {"A": "hush"}})
    assert "hush" not in str(error.value)


def test_what_a_job_should_know_is_a_warning_of_python_one_for_each_finding(sdk: LocalSDK) -> None:
    with pytest.warns(TaoWarning) as told:
        job = sdk.create_job("", "echo {lr}", gpu_count=0, args={"lrr": 1})
    assert len(told) == len(
        sdk.plan(JobSpec(command="echo {lr}", gpu_count=0, args={"lrr": 1}), "local").findings
    )
    assert Path(told[0].filename) == Path(__file__)
    assert sdk.wait(job.id, timeout=300)


def test_a_text_that_reads_like_a_path_is_a_warning(sdk: LocalSDK) -> None:
    with pytest.warns(TaoWarning, match=r"pathlib.Path\('nope.py'\)") as told:
        sdk.create_job("", "cat a b", gpu_count=0, files={"a": "nope.py", "b": "import os\n"})
    assert len(told) == 1


@pytest.mark.parametrize(
    ("flag", "field"), [("gpus", "gpu_count"), ("env", "env_vars"), ("nodes", "num_nodes")]
)
def test_a_keyword_that_is_called_as_the_flag_is_named_with_the_field(
    sdk: LocalSDK, flag: str, field: str
) -> None:
    with pytest.raises(SpecError, match=f"unknown key '{flag}'. Did you mean {field}?"):
        sdk.create_job("", "true", **dict[str, Any]({flag: 1}))


@pytest.mark.slow
@pytest.mark.parametrize("timeout", ["1m", timedelta(minutes=1), float("nan"), [3]])
def test_a_timeout_that_is_no_number_of_seconds_is_a_usage_error(
    sdk: LocalSDK, timeout: Any
) -> None:
    job = sdk.create_job("", "sleep 60", gpu_count=0)
    with pytest.raises(UsageError, match="timeout is .*; it must be a number of seconds"):
        sdk.wait(job.id, timeout=timeout)
    with pytest.raises(WaitTimeout, match=f"To wait again: tao wait {job.id}"):
        sdk.wait(job.id, timeout=0.1)
    sdk.cancel_job(job.id, grace=0.1)


def test_an_unknown_keyword_is_named_with_what_was_meant(sdk: LocalSDK) -> None:
    with pytest.raises(SpecError, match="unknown key 'gpu_idx'. Did you mean gpu_ids?"):
        sdk.create_job("", "true", gpu_idx=[0])
    with pytest.raises(SpecError, match="unknown key 'timeout'. Did you mean time_limit?"):
        sdk.create_job("", "true", timeout=300)


def test_a_command_as_a_list_of_words_is_told_with_the_text_to_write(sdk: LocalSDK) -> None:
    words: Any = ["python", "train.py", "--note", "a b"]
    with pytest.raises(SpecError, match="command is .*it must be a text") as told:
        sdk.create_job(command=words, gpu_count=0)
    assert told.value.next == """Write "python train.py --note 'a b'"."""
    with pytest.raises(SpecError) as told:
        sdk.submit({"command": words, "gpu_count": 0})
    assert told.value.next == """Write "python train.py --note 'a b'"."""


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("gpu_count", "two"),
        ("time_limit", "soon"),
        ("labels", [1]),
        ("retries", -1),
        ("env_vars", 3),
    ],
)
def test_a_spec_made_in_python_is_checked_like_one_from_a_file(
    sdk: LocalSDK, field: str, value: Any
) -> None:
    with pytest.raises(SpecError, match=f"{field} is"):
        sdk.submit(JobSpec(command="true", **{field: value}), "local")
    assert sdk.list_jobs() == []


class Optimizer(Enum):
    ADAM = "adam"


LIBRARY = {"lr": numpy.float32(0.5), "n": numpy.int64(3), "on": numpy.bool_(True),
     "size": numpy.array([1, 2]),
           "data": Path("/data/x"), "optimizer": Optimizer.ADAM}  # fmt: skip
PLAIN = {"lr": 0.5, "n": 3, "on": True, "size": [1, 2], "data": "/data/x", "optimizer": "adam"}


def test_values_of_numpy_paths_and_enums_arrive_in_the_spec_as_plain_ones(sdk: LocalSDK) -> None:
    job = sdk.create_job("", "cat {config_path}", 0, specs={"train": LIBRARY}, config_format="json")
    assert sdk.wait(job.id, timeout=300).status == "Complete"
    assert (
        json.loads(sdk.get_job_logs(job.id))
        == {"train": PLAIN}
        == sdk.get_job(job.id).spec["specs"]
    )


def test_values_of_numpy_paths_and_enums_arrive_as_arguments_and_variables(sdk: LocalSDK) -> None:
    env_vars = {"LR": numpy.float32(0.5), "OPTIMIZER": Optimizer.ADAM, "HERE": Path("/data")}
    job = sdk.create_job(
        "", "echo {size} $LR $OPTIMIZER $HERE", numpy.int64(0), env_vars, args=LIBRARY
    )
    assert sdk.wait(job.id, timeout=300).status == "Complete"
    told = "1 2 0.5 adam /data --lr 0.5 --n 3 --on --data /data/x --optimizer adam\n"
    assert sdk.get_job_logs(job.id) == told
    assert sdk.get_job(job.id).spec["args"] == PLAIN


def test_a_path_is_taken_as_the_address_of_an_input_by_both_ways_in(
    sdk: LocalSDK, tmp_path: Path
) -> None:
    (tmp_path / "there").write_text("hello")
    inputs = {f"{tmp_path}/data": tmp_path / "there"}
    job = sdk.create_job("", f"cat {tmp_path}/data", 0, None, inputs)
    assert sdk.wait(job.id, timeout=300).status == "Complete"
    assert sdk.get_job_logs(job.id) == "hello"
    assert build_entrypoint(command="x", inputs=inputs) == build_entrypoint(
        command="x", inputs={key: str(value) for key, value in inputs.items()}
    )


@pytest.mark.slow
@pytest.mark.parametrize("field", ["specs", "args", "inputs", "outputs", "native", "mounts"])
@pytest.mark.parametrize("wrong", [object(), numpy.array([1j]), {1, 2}, Decimal(1)])
def test_a_value_that_no_job_can_hold_is_a_spec_error_with_its_place(
    sdk: LocalSDK, field: str, wrong: object
) -> None:
    with pytest.raises(SpecError, match=rf"{field}\W*train"):
        sdk.create_job("", "true", 0, config_format="yaml", **{field: {"train": wrong}})


def test_another_sdk_with_the_same_state_file_finds_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings(
        {
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "TAO_SDK_STATE_DIR": str(tmp_path / "state"),
        }
    )
    with LocalSDK(state_file=tmp_path / "my_state.json", settings=settings) as first:
        job = first.create_job("", "echo found", gpu_count=0)
    with LocalSDK(state_file=str(tmp_path / "my_state.db"), settings=settings) as second:
        assert second.wait(job.id, timeout=300).status == "Complete"
        assert second.get_job_logs(job.id, tail=5) == "found\n"


def test_jobs_of_other_platforms_are_not_listed(sdk: LocalSDK) -> None:
    job = sdk.create_job("", "true", gpu_count=0)
    assert [found.id for found in sdk.list_jobs()] == [job.id]
    assert sdk.list_jobs(platform="docker", look=False) == []
    with pytest.raises(UsageError, match="unknown platform: 'lokal'. Did you mean local?"):
        sdk.list_jobs(platform="lokal")


def test_jobs_are_listed_by_any_name_of_their_platform(sdk: LocalSDK) -> None:
    id = "x-0123456789"
    attempt = Attempt(id, 1, "docker", "unix:///nowhere", sdk.store.store_id)
    sdk.store.add(Job(id=id, name="x", platform="docker"), AttemptRow(attempt, {}))
    assert [job.id for job in sdk.list_jobs(platform="local-docker", look=False)] == [id]


def test_jobs_are_listed_by_the_name_of_a_status_and_a_wrong_one_is_told(sdk: LocalSDK) -> None:
    job = sdk.create_job(command="true", gpu_count=0)
    sdk.wait(job.id, timeout=300)
    assert [one.id for one in sdk.list_jobs(statuses=["Complete"])] == [job.id]
    assert sdk.list_jobs(statuses="Error") == []
    assert sdk.list_jobs(statuses="Complete") == sdk.list_jobs(statuses=["Complete"])
    assert sdk.list_jobs(statuses="complete") == sdk.list_jobs(statuses=["COMPLETE"])
    assert [one.id for one in sdk.list_jobs(statuses="complete")] == [job.id]
    with pytest.raises(UsageError, match="invalid status: 'xyzzy'. Known are: Pending, "):
        sdk.list_jobs(statuses=["xyzzy"])
    nothing: Any = None
    assert len(sdk.list_jobs(statuses=nothing)) == 1


@pytest.mark.parametrize(
    ("word", "status"),
    [("Failed", "Error"), ("Completed", "Complete"), ("runing", "Running"), ("done", "Complete")],
)
def test_a_status_that_another_tool_has_or_that_is_misspelt_names_ours(
    sdk: LocalSDK, word: str, status: str
) -> None:
    with pytest.raises(UsageError, match=f"invalid status: '{word}'. Did you mean '{status}'?"):
        sdk.list_jobs(statuses=word)


def test_a_job_given_for_its_id_is_told(sdk: LocalSDK) -> None:
    job: Any = sdk.create_job(command="true", gpu_count=0)
    for verb in (
        sdk.wait,
        sdk.get_job_status,
        sdk.get_job_logs,
        sdk.cancel_job,
        sdk.diagnose,
        sdk.get_job_results_dir,
    ):
        with pytest.raises(UsageError, match=r"by its id, not by a Job. Pass job\.id\."):
            verb(job)


def test_a_path_stands_for_the_files_content_and_a_folder_for_all_below_it(
    sdk: LocalSDK, tmp_path: Path
) -> None:
    (tmp_path / "code" / "deep").mkdir(parents=True)
    (tmp_path / "code" / "a.txt").write_text("one\n")
    (tmp_path / "code" / "deep" / "b.txt").write_text("two\n")
    files = {"x.txt": tmp_path / "code" / "a.txt", "src": tmp_path / "code", "t.txt": "three\n"}
    job = sdk.create_job(
        command="cat x.txt src/a.txt src/deep/b.txt t.txt", gpu_count=0, files=files
    )
    assert sdk.wait(job.id, timeout=300).status == "Complete"
    assert sdk.get_job_logs(job.id).split() == ["one", "one", "two", "three"]


def test_a_path_of_files_where_nothing_is_names_what_lies_beside(
    sdk: LocalSDK, tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()
    with pytest.raises(SpecError, match=r"there is no .*trian\.py\. Did you mean .*train\.py\?"):
        sdk.create_job(command="true", gpu_count=0, files={"t.py": tmp_path / "trian.py"})


def test_a_folder_and_a_file_for_one_place_in_the_job_are_refused(
    sdk: LocalSDK, tmp_path: Path
) -> None:
    (tmp_path / "a.py").touch()
    files = {"src": tmp_path, "src/a.py": b""}
    with pytest.raises(SpecError, match=r"two files for 'src/a\.py'"):
        sdk.create_job(command="true", gpu_count=0, files=files)


def test_a_parent_is_remembered(sdk: LocalSDK) -> None:
    first = sdk.create_job("", "true", gpu_count=0)
    second = sdk.create_job("", "true", gpu_count=0, parent_job_id=first.id)
    assert [job.id for job in sdk.list_jobs(parent=first.id)] == [second.id]
    assert [job.id for job in sdk.list_jobs(parent=first.id[:-2])] == [second.id]
    assert sdk.list_jobs(parent="none-such") == []


def test_a_parent_by_its_name_is_found_and_one_that_nobody_knows_is_warned_of(
    sdk: LocalSDK, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = sdk.create_job("", "true", gpu_count=0, name="search")
    trial = sdk.create_job("", "true", gpu_count=0, parent_job_id="search")
    assert [job.id for job in sdk.list_jobs(parent=search.id)] == [trial.id]
    with pytest.warns(TaoWarning, match="'nobody-0123456789' is no job of this store"):
        lost = sdk.create_job("", "true", gpu_count=0, parent_job_id="nobody-0123456789")
    assert lost.parent == "nobody-0123456789"
    with pytest.raises(UsageError, match="Write job.id"):
        sdk.create_job("", "true", gpu_count=0, parent_job_id=search)
    monkeypatch.setitem(sdk.settings.environ, "TAO_JOB_ID", "outer-0123456789")
    with warnings.catch_warnings():
        warnings.simplefilter("error", TaoWarning)
        sdk.create_job("", "true", gpu_count=0, parent_job_id="outer-0123456789")


def test_paths_are_looked_at_and_a_missing_one_is_no_error_of_the_look(
    sdk: LocalSDK, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "b").touch()
    (tmp_path / "data" / "a").mkdir()
    assert sdk.check_path(f"file://{tmp_path}/data") is True
    assert sdk.check_path(f"file://localhost{tmp_path}/data") is True
    assert sdk.check_path(f"{tmp_path}/nothing") is False
    assert sdk.list_path(str(tmp_path / "data")) == ["a", "b"]
    with pytest.raises(TaoError, match="http:// cannot be looked at yet"):
        sdk.check_path("http://host/path")


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("aws://x/y", "aws:// is not a scheme of a job. Write s3://bucket/key."),
        ("gs://bucket/key", "gs:// is not a scheme of a job. Use a bucket with an S3 endpoint"),
        ("lustr:///x", "Did you mean lustre://?"),
        ("pvc://data/x", "a claim of a Kubernetes cluster. Only a job of the cluster can read it"),
        ("s3:///x", "that is no complete address. Write s3://bucket/key."),
        ("file://x/y", "a path has to follow file://"),
        ("s3://", "that is no complete address. Write s3://bucket/key."),
    ],
)
def test_an_address_that_is_none_is_answered_with_what_to_write(
    sdk: LocalSDK, written: str, told: str
) -> None:
    with pytest.raises(UsageError) as error:
        sdk.check_path(written)
    assert told in str(error.value)


def test_a_line_that_is_drawn_again_and_again_is_one_line_of_the_logs_tail(sdk: LocalSDK) -> None:
    job = sdk.create_job(
        command=r"printf 'first\n 10 %%\r 20 %%\r 30 %%\n\f\v\302\205last\n'", gpu_count=0
    )
    sdk.wait(job.id, timeout=300)
    assert sdk.get_job_logs(job.id, tail=2) == " 10 %\r 20 %\r 30 %\n\f\v\x85last\n"
    assert sdk.get_job_logs(job.id, tail=3) == sdk.get_job_logs(job.id)


@pytest.mark.parametrize("grace", [-1.0, float("inf"), float("nan")])
def test_a_grace_that_is_no_time_is_told_and_the_job_goes_on(sdk: LocalSDK, grace: float) -> None:
    job = sdk.create_job(command="sleep 300", gpu_count=0)
    with pytest.raises(UsageError, match=f"grace is {grace}"):
        sdk.cancel_job(job.id, grace=grace)
    assert not sdk.get_job(job.id).status.terminal
    assert sdk.cancel_job(job.id, grace=0)


@pytest.mark.parametrize(
    "interval",
    [{"epoch_milestone_interval": 0}, {"poll_interval": -1.0}, {"poll_interval": float("nan")}],
)
def test_an_interval_that_is_none_is_told_at_once(tmp_path: Path, interval: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(interval))):
        LocalSDK(settings=Settings({"HOME": str(tmp_path)}), **interval)


def test_a_failed_job_is_analysed_in_the_documented_form(sdk: LocalSDK) -> None:
    job = sdk.create_job("", "exit 3", gpu_count=0)
    sdk.wait(job.id, timeout=300)
    analysis = sdk.get_failure_analysis(job.id)
    assert analysis is not None
    assert analysis["err_class"] == "ERR_PROGRAM"
    assert analysis["suggestion"]
    assert {"node_event_name", "message"} == set(analysis["job_failure_by_node_event"][0])
    good = sdk.create_job("", "true", gpu_count=0)
    sdk.wait(good.id, timeout=300)
    assert sdk.get_failure_analysis(good.id) is None


def test_what_the_sdk_sets_wins_over_the_callers_environment(sdk: LocalSDK) -> None:
    env = {
        "TAO_JOB_ID": "mine",
        "DOCKER_HOST": "tcp://x",
        "WORLD": "kept",
        "TOKEN_A": Secret("hidden-value"),
    }
    job = sdk.create_job(
        "", "echo $TAO_JOB_ID ${DOCKER_HOST:-none} $WORLD ${#TOKEN_A}", gpu_count=0, env_vars=env
    )
    sdk.wait(job.id, timeout=300)
    assert sdk.get_job_logs(job.id) == f"{job.id} none kept 12\n"


def test_a_missing_marked_secret_is_a_credential_error(sdk: LocalSDK) -> None:
    with pytest.raises(CredentialError, match="MY_PASSPHRASE"):
        sdk.create_job("", "true", gpu_count=0, secrets=["MY_PASSPHRASE"])


def test_gc_removes_a_secret_that_a_killed_client_left(sdk: LocalSDK) -> None:
    sdk.store.keyring.save("gone-0000000000", {"API_KEY": "left behind"})
    left = next((sdk.store.path.parent).rglob("*gone-0000000000*"))
    os.utime(left, (0, 0))
    sdk.gc(older_than=timedelta(days=9))
    assert not left.exists()


def test_a_job_can_be_given_as_its_fields_by_name(sdk: LocalSDK) -> None:
    job = sdk.submit({"command": "echo by name", "gpu_count": 0}, "local").job
    sdk.wait(job.id, timeout=300)
    assert sdk.get_job_logs(job.id) == "by name\n"
    with pytest.raises(SpecError, match="Did you mean command"):
        sdk.plan({"comand": "true"}, "local")


def test_an_age_that_is_no_time_is_one_clear_error(sdk: LocalSDK) -> None:
    with pytest.raises(UsageError, match="timedelta"):
        sdk.gc(older_than=3)  # pyright: ignore[reportArgumentType]


def test_more_than_one_node_is_refused_in_one_sentence(sdk: LocalSDK) -> None:
    with pytest.raises(Refused) as error:
        sdk.create_job(command="true", gpu_count=0, num_nodes=2)
    assert (error.value.code, error.value.what) == (
        "spec.num_nodes",
        "local runs a job on one node, not 2.",
    )


@pytest.mark.parametrize("path", ["", "a\0b", "foo://bar"])
def test_what_can_be_no_path_is_told(sdk: LocalSDK, path: str) -> None:
    with pytest.raises(UsageError):
        sdk.check_path(path)
    with pytest.raises(UsageError):
        sdk.list_path(path)


def test_what_a_client_returns_goes_to_another_process_and_the_client_does_not(
    sdk: LocalSDK,
) -> None:
    job = sdk.create_job(command="true", gpu_count=0)
    status = sdk.wait(job.id)
    job = sdk.get_job(job.id)
    assert pickle.loads(pickle.dumps((job, status))) == (job, status)
    with pytest.raises(TypeError, match="belongs to its process"):
        pickle.dumps(sdk)


def test_fields_of_a_job_as_keywords_of_submit_are_told(sdk: LocalSDK) -> None:
    with pytest.raises(UsageError, match="submit: there is no argument 'command'.*JobSpec") as told:
        sdk.submit(command="touch ran", gpu_count=0)
    assert "command=..., gpu_count=..." in told.value.next
    with pytest.raises(UsageError, match="plan: there is no argument 'cmd'"):
        sdk.plan(JobSpec(command="true"), "local", cmd=3)
    with pytest.raises(UsageError, match="submit: no job is given"):
        sdk.submit()
    assert sdk.list_jobs() == []


def test_the_platform_of_submit_is_the_sdks_own_where_none_is_named(sdk: LocalSDK) -> None:
    assert sdk.submit({"command": "true", "gpu_count": 0}).job.platform == "local"
    with (
        Client(settings=sdk.settings) as client,
        pytest.raises(UsageError, match="submit: no platform is named.*local"),
    ):
        client.submit({"command": "true"})


def test_a_command_in_the_place_of_the_image_is_told(sdk: LocalSDK) -> None:
    with pytest.raises(SpecError, match="command is missing") as told:
        sdk.create_job("python x.py", gpu_count=0)
    assert told.value.why == "'python x.py' was given as the image: that is the first argument."
    assert told.value.next == "Write create_job(command='python x.py')."
    with pytest.raises(SpecError) as told:
        sdk.create_job(image="python:3.12", gpu_count=0)
    assert told.value.next == "Write create_job(image='python:3.12', command='...')."


def test_a_job_file_in_the_place_of_a_job_is_answered_with_how_to_read_it(sdk: LocalSDK) -> None:
    with pytest.raises(SpecError, match="reads like a job file.*read_job_file"):
        sdk.create_job("examples/digits/job.yaml")
    with pytest.raises(UsageError, match="a job is no text.*read_job_file"):
        sdk.submit("examples/digits/job.yaml")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="JobSpec\\(command='echo two'\\)"):
        sdk.submit("echo two")  # type: ignore[arg-type]


def test_a_text_that_is_the_name_of_a_file_here_is_no_content(
    sdk: LocalSDK, tmp_path: Path
) -> None:
    (tmp_path / "t.py").write_text("print(1)")
    with pytest.raises(SpecError, match=r"files\['t.py'\] is the text 't.py'.* Path\('t.py'\)"):
        sdk.create_job("", "cat t.py", gpu_count=0, files={"t.py": "t.py"})
    with pytest.raises(SpecError, match=r"such as \{'train.py': Path\('train.py'\)\}"):
        sdk.create_job("", "cat t.py", gpu_count=0, files=["t.py"])  # pyright: ignore[reportArgumentType]
    assert sdk.list_jobs() == []
    files = {"t.py": b"t.py", "word": "word", "long": "x" * 10_000, "empty": ""}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sdk.create_job("", "cat t.py", gpu_count=0, files=files)


@pytest.mark.slow
@pytest.mark.parametrize("field", ["tail", "rank"])
def test_a_part_of_a_log_that_is_no_number_is_told(sdk: LocalSDK, field: str) -> None:
    job = sdk.create_job("", "echo a; echo b", gpu_count=0)
    sdk.wait(job.id, timeout=300)
    with pytest.raises(UsageError, match=f"{field} is 'x'; it must be a whole number"):
        sdk.get_job_logs(job.id, **dict[str, Any]({field: "x"}))
    with pytest.raises(UsageError, match=f"{field} is -1; it must be a whole number of 0 or more"):
        sdk.get_job_logs(job.id, **dict[str, Any]({field: -1}))
    last: Any = numpy.int64(1)
    assert sdk.get_job_logs(job.id, tail=last) == "b\n"


@pytest.mark.parametrize(
    ("call", "arguments", "words"),
    [
        ("cancel_job", {"job_id": "a", "grace": "x"}, "grace is 'x'. It is the time"),
        ("cancel_jobs", {"job_ids": "job-1"}, r"job_ids is the text 'job-1'.*\['job-1'\]"),
        ("compare", {"jobs": "job-1"}, "jobs is the text 'job-1'"),
        ("wait_all", {"ids": "job-1"}, "ids is the text 'job-1'"),
        ("list_jobs", {"limit": "x"}, "limit is 'x'"),
        ("list_jobs", {"limit": -1}, "limit is -1"),
        ("list_jobs", {"labels": ["a"]}, r"labels is \['a'\]; it must be a mapping"),
    ],
)
def test_an_argument_of_another_kind_is_told_by_its_name(
    sdk: LocalSDK, call: str, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        getattr(sdk, call)(**arguments)


@pytest.mark.parametrize(
    "command", [numpy.zeros(1, dtype=[("a", "i4")]), numpy.arange(3), b"true"], ids=repr
)
def test_a_command_of_another_kind_is_told_by_its_field(sdk: LocalSDK, command: Any) -> None:
    with pytest.raises(FieldError, match=r"command is .*it must be a text") as error:
        sdk.create_job(command=command, gpu_count=0)
    assert error.value.field == "command"


def test_a_pause_that_is_no_number_is_told(sdk: LocalSDK) -> None:
    wrong: Any = "2s"
    with pytest.raises(UsageError, match="poll_interval is '2s'"):
        LocalSDK(poll_interval=wrong, settings=sdk.settings)


def test_an_argument_that_is_nearly_one_is_named(sdk: LocalSDK) -> None:
    with pytest.raises(TypeError, match="has no argument 'status'. Did you mean 'statuses'"):
        sdk.list_jobs(status="Error")  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="nonsense"):
        sdk.list_jobs(nonsense=1)  # pyright: ignore[reportCallIssue]
    assert sdk.list_jobs(statuses=["Error"]) == []


def test_the_advice_of_a_python_caller_names_keywords(sdk: LocalSDK) -> None:
    job = sdk.create_job("", "python3 missing.py", gpu_count=0)
    sdk.wait(job.id, timeout=300)
    found, analysis = sdk.diagnose(job.id), sdk.get_failure_analysis(job.id)
    assert found is not None
    assert analysis is not None
    assert 'files={"PATH": Path("PATH")}' in found.next
    assert analysis["suggestion"] == found.next

"""`tao run` and `tao plan`, against the real local backend."""

from __future__ import annotations

import json
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.tao_command import TRAINING, Ran, Tao
from tao_sdk.backends.local.backend import LocalBackend
from tao_sdk.model.errors import Refused
from tao_sdk.store import Store


def test_a_job_file_runs_to_its_end_and_says_how_it_went(tao: Tao) -> None:
    tao.write(
        "digits.yaml", f'command: echo kept > "$TAO_RESULTS_DIR/kept"; {TRAINING}\ngpu_count: 0\n'
    )
    ran = tao("run", "digits.yaml")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    job = lines[0].split()[0]
    assert re.fullmatch(r"digits-[a-z0-9]{10}", job)
    assert [line for line in lines if line.startswith("epoch")] == [
        "epoch 1/3  loss 0.800  accuracy 0.700",
        "epoch 2/3  loss 0.700  accuracy 0.800",
        "epoch 3/3  loss 0.600  accuracy 0.900",
    ]
    assert re.match(r"✓ Complete in \d:\d\d · accuracy 0.900", lines[-2])
    assert lines[-1].split() == ["results", f"runs/{job}/", "curve", f"runs/{job}/curve.svg"]
    assert (tao.home / "runs" / job / "curve.svg").read_text().startswith("<svg")


def test_what_is_printed_to_a_pipe_is_plain_and_nothing_is_said_twice(tao: Tao) -> None:
    ran = tao("run", "--gpus", "0", "--", TRAINING)
    assert "\x1b" not in ran.out + ran.err
    lines = ran.out.splitlines()
    assert len(set(lines)) == len(lines)


def test_a_command_after_the_dashes_keeps_its_words(tao: Tao) -> None:
    ran = tao("run", "--gpus", "0", "--", "printf", "<%s>\n", "two words", "$HOME", "it's")
    assert "  <two words>\n  <$HOME>\n  <it's>" in ran.out


def test_a_single_word_after_the_dashes_is_shell_text(tao: Tao) -> None:
    assert "  3\n" in tao("run", "--gpus", "0", "--", "echo $((1 + 2))").out


def test_flags_win_over_the_job_file(tao: Tao) -> None:
    tao.write(
        "job.yaml",
        "command: echo file $A $B\nname: file\ngpu_count: 0\nenv_vars: {A: file, B: "
        "file}\nlabels: {x: '1'}\n",
    )
    ran = tao(
        "run",
        "job.yaml",
        "--json",
        "-d",
        "--name",
        "flag",
        "--env",
        "B=flag",
        "--label",
        "y=2",
        "--",
        "echo",
        "flag",
    )
    job = ran.json
    assert (job["name"], job["labels"]) == ("flag", {"x": "1", "y": "2"})
    tao("wait", job["id"])
    assert tao("logs", job["id"]).out == "flag\n"


def test_the_job_file_chooses_the_environment_and_a_flag_takes_one_from_here(tao: Tao) -> None:
    tao.write("job.yaml", "command: echo $A $MY_TOKEN\ngpu_count: 0\nenv_vars: {A: file}\n")
    job = tao("run", "job.yaml", "--json", "-d", "--env", "MY_TOKEN", MY_TOKEN="tok-123456").json[
        "id"
    ]
    tao("wait", job)
    assert tao("logs", job).out == "file tok-123456\n"


def test_a_secret_in_the_command_line_is_warned_of(tao: Tao) -> None:
    ran = tao("run", "-d", "--gpus", "0", "--env", "MY_TOKEN=tok-123456", "--", "true")
    assert "others on this machine can read MY_TOKEN" in ran.err
    assert "tok-123456" not in ran.out + ran.err


def test_with_json_the_warning_of_a_secret_is_an_object(tao: Tao) -> None:
    ran = tao(
        "run", "--json", "--detach", "--gpus", "0", "--env", "MY_TOKEN=tok-0123456789", "--", "true"
    )
    assert "MY_TOKEN" in json.loads(ran.err.splitlines()[0])["note"]
    assert "tok-0123456789" not in ran.err


def test_files_and_options_of_the_platform_are_flags(tao: Tao) -> None:
    tao.write("code/train.py", "print('trained')")
    ran = tao("run", "--gpus", "0", "--files", "train.py=code/train.py", "--", "python3 train.py")
    assert "  trained\n" in ran.out
    assert "--venv-path" in tao("run", "--help").out
    refused = tao("run", "--option", "venv_pth=/v", "--", "true")
    assert (refused.code, "Did you mean venv_path?" in refused.err) == (2, True)


def test_a_failed_job_says_why_and_what_to_do_and_shows_the_end_of_its_log(tao: Tao) -> None:
    ran = tao("run", "--gpus", "0", "--", "python3 -c 'import no_such_module'")
    assert ran.code == 1
    assert "✗ Error after" in ran.out
    assert "no_such_module" in ran.out
    assert "Do: " in ran.out
    assert re.search(r"  \| ModuleNotFoundError", ran.out)
    assert re.search(r"log  tao logs job-\w+", ran.out)


def test_the_output_of_a_job_without_epochs_is_shown(tao: Tao) -> None:
    assert "  hello\n" in tao("run", "--gpus", "0", "--", "echo hello").out


def test_with_json_events_come_a_line_each_and_the_job_last(tao: Tao) -> None:
    ran = tao("run", "--json", "--gpus", "0", "--", TRAINING)
    *events, job = ran.json_lines
    assert (ran.code, job["status"], job["schema"]) == (0, "Complete", 1)
    assert {event["kind"] for event in events} >= {"status", "progress"}
    assert [event["data"]["epoch"] for event in events if event["kind"] == "progress"] == [1, 2, 3]
    assert ran.err == ""


def test_detached_with_json_only_the_job_is_printed(tao: Tao) -> None:
    ran = tao("run", "--json", "--detach", "--gpus", "0", "--", "true")
    assert (ran.code, ran.json["schema"], ran.err) == (0, 1, "")


def test_ctrl_c_leaves_the_job_running_and_says_how_to_come_back(tao: Tao, tmp_path: Path) -> None:
    go = tmp_path / "go"
    command = f"echo epoch 1/9 loss 1; until [ -e {go} ]; do sleep 0.1; done; echo over"
    running = tao.start("run", "--gpus", "0", "--name", "long", "--", command)
    assert running.stdout is not None
    job = running.stdout.readline().split()[0]
    while not tao("logs", job).out:
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=300)
    assert running.returncode == 130
    assert f"Detached; {job} goes on. Come back: tao attach {job}" in err
    assert "Traceback" not in err
    go.touch()
    assert tao("logs", "-f", job).out.endswith("over\n")
    assert tao("wait", job).code == 0


def interrupting(verb: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
    """The backend's verb, with Ctrl-C pressed before or after it."""

    def interrupted(*given: Any) -> Any:
        answer = verb(*given) if after else None
        signal.raise_signal(signal.SIGINT)
        return answer

    return interrupted


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_ctrl_c_while_the_job_is_handed_over_names_the_job_that_is_left(
    typed: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(LocalBackend, "submit", interrupting(LocalBackend.submit, after=after))
        ran = typed("run", "--gpus", "0", "--", "echo ran")
    [job] = typed("ls", "--json").json
    assert ran.code == 130
    assert ran.err == f"\nDetached; {job['id']} goes on. Come back: tao attach {job['id']}\n"
    assert typed("logs", "-f", job["id"]).out == "ran\n"
    assert typed("wait", job["id"]).code == 0


def test_the_job_is_named_before_its_platform_takes_it_and_a_refusal_is_told_below(
    typed: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Refused("The place is shut.")

    monkeypatch.setattr(LocalBackend, "submit", refuse)
    ran = typed("run", "--gpus", "0", "--name", "early", "--", "true")
    assert re.fullmatch(r"early-\w{10}  local\nnot started\n", ran.out)
    assert (ran.code, ran.err) == (2, "error: The place is shut.\n")
    for how in ("--json", "--detach"):
        assert typed("run", how, "--gpus", "0", "--", "true").out == ""
    assert typed("ls", "--json").json == []


@pytest.mark.parametrize("verb", ["survey", "plan", "check"])
def test_ctrl_c_before_there_is_a_job_says_that_nothing_was_started(
    typed: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setattr(LocalBackend, verb, interrupting(getattr(LocalBackend, verb), after=True))
    ran = typed("run", "--gpus", "0", "--", "true")
    assert (ran.code, ran.err) == (130, "\nInterrupted; nothing was started.\n")
    assert typed("ls", "--json").json == []


def test_a_job_that_is_removed_while_it_is_watched_is_not_said_to_go_on(tao: Tao) -> None:
    """Removed in one step: `tao rm --force` cancels it first, which a watcher may see as its end."""
    go = tao.home / "go"
    running = tao.start("run", "--gpus", "0", "--", f"until [ -e {go} ]; do sleep 0.05; done")
    assert running.stdout is not None
    job = running.stdout.readline().split()[0]
    with Store.open(tao.home / "state" / "jobs.db") as store:
        store.remove(job)
    _, err = running.communicate(timeout=300)
    go.touch()
    assert running.returncode == 3
    assert f"no such job: {job!r}" in err
    assert "goes on" not in err


def test_a_store_that_is_spoiled_under_a_running_job_says_that_the_job_goes_on(tao: Tao) -> None:
    spoil = (
        f"for file in {tao.home}/state/jobs.db*; do [ -d $file ] || head -c "
        "400000 /dev/urandom > $file; done"
    )
    ran = tao("run", "--gpus", "0", "--", f"sleep 0.5; {spoil}; sleep 5")
    assert (ran.code, "Traceback" in ran.err) == (2, False)
    assert re.search(r"next: .* job-\w+ goes on: tao logs -f job-\w+", ran.err)
    shutil.rmtree(tao.home / "state")


def test_a_mistake_in_the_job_file_is_told_with_its_line(tao: Tao) -> None:
    tao.write("job.yaml", "command: x\ngpu_cont: 1\n")
    ran = tao("run", "job.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        "error: job.yaml:2:1: unknown key 'gpu_cont'.",
        "next:  Did you mean gpu_count?",
    ]


def test_a_mistake_that_is_seen_only_later_is_told_with_its_line_too(tao: Tao) -> None:
    tao.write("job.yaml", "command: x\nenv_vars: {A-B: c}\n")
    assert "job.yaml:2:11: env_vars" in tao("plan", "job.yaml").err


def test_a_mistake_that_only_packing_the_job_can_see_is_told_with_its_line(tao: Tao) -> None:
    tao.write(
        "job.yaml", "command: x -e {config_path}\nspecs: {a: 1}\ninputs: {b.c: {type: file}}\n"
    )
    assert "job.yaml:3:10: inputs names b.c" in tao("run", "job.yaml").err


def test_what_is_worth_knowing_is_told_beside_the_job(tao: Tao) -> None:
    flags = ("run", "--detach", "--gpus", "0", "--memory", "1g")
    assert "memory" in tao(*flags, "--", "true").err
    beside = tao(*flags, "--json", "--", "true").err.splitlines()
    assert [set(json.loads(line)) <= {"note", "finding"} for line in beside] == [True] * len(beside)
    assert beside


def test_nothing_to_run_and_a_script_in_place_of_a_job_file_are_told(tao: Tao) -> None:
    assert "There is nothing to run." in tao("run").err
    tao.write("train.py", "print(1)")
    for words in (["train.py"], ["python", "train.py"]):
        assert "tao run --files train.py -- python train.py" in tao("run", *words).err
    assert "tao run -- python other.py" in tao("run", "python", "other.py").err


def test_a_platform_that_is_not_known_is_told_with_what_was_meant(tao: Tao) -> None:
    ran = tao("run", "--platform", "slrum", "--", "true")
    assert (ran.code, "Did you mean slurm?" in ran.err) == (2, True)


def test_a_wrong_value_is_told_with_its_flag(tao: Tao) -> None:
    ran = tao("run", "--gpu-count", "many", "--", "true")
    assert (
        ran.err.splitlines()[0]
        == "error: --gpus is 'many'; it must be a whole number of -1 or more."
    )


def test_a_refused_job_leaves_nothing_behind(tao: Tao) -> None:
    ran = tao("run", "--json", "--gpus", "512", "--", "true")
    assert (ran.code, set(ran.error)) == (2, {"code", "message", "cause", "next", "hint"})
    assert tao("ls", "--json").json == []


def test_plan_shows_what_would_be_sent_and_sends_nothing(tao: Tao) -> None:
    tao.write(
        "job.yaml",
        "command: echo hello-from-the-plan\ngpu_count: 0\nenv_vars: {MY_TOKEN: tok-123456}\n",
    )
    shown = tao("plan", "job.yaml", "--full")
    assert shown.code == 0
    assert "hello-from-the-plan" in shown.out
    assert "MY_TOKEN" in shown.out
    assert "tok-123456" not in shown.out + shown.err
    assert tao("ls", "--json").json == []


def test_a_plan_is_told_in_a_few_lines_with_the_command_as_it_was_typed(tao: Tao) -> None:
    tao.write(
        "job.yaml",
        "command: |\n  python train.py --lr 3\n  echo done\ngpu_count: 0\nenv_vars: "
        "{MY_TOKEN: tok-12345}\n",
    )
    shown = tao("plan", "job.yaml")
    assert (shown.code, len(shown.out.splitlines()) <= 12) == (0, True)
    for words in (
        "local",
        "gpus     0",
        "command  python train.py --lr 3",
        "results  ",
        "MY_TOKEN",
        "tao plan --full",
    ):
        assert words in shown.out
    assert "TAO_ATTEMPT" not in shown.out
    assert "tok-12345" not in shown.out + shown.err


def test_a_summary_of_a_plan_with_many_findings_has_at_most_twelve_lines(tao: Tao) -> None:
    outputs = "".join(f", made_{number}" for number in range(30))
    tao.write(
        "job.yaml",
        f"command: 'true {{config_path}}'\ngpu_count: 0\nspecs: {{a: 1}}\noutputs: [first{outputs}]\n",
    )
    assert len(tao("plan", "--json", "job.yaml").json["findings"]) > 12
    lines = tao("plan", "job.yaml").out.splitlines()
    assert len(lines) == 12
    assert re.fullmatch(r"and \d+ more", lines[-2])
    assert len(tao("plan", "--full", "job.yaml").out.splitlines()) > 30


DEAD_CLUSTER = {
    "SLURM_HOSTNAME": "127.0.0.1:9",
    "SLURM_USER": "nobody",
    "SLURM_BASE_RESULTS_DIR": "/lustre/nobody",
}
DEAD_DAEMON = {"DOCKER_HOST": "tcp://127.0.0.1:9"}


@pytest.mark.parametrize(
    ("platform", "dead", "place", "unchecked"),
    [
        ("docker", DEAD_DAEMON, "Docker daemon", "Its image, GPUs and network"),
        ("slurm", DEAD_CLUSTER, "cluster", "Its partitions, GPUs, accounts"),
    ],
)
def test_a_place_that_does_not_answer_is_planned_for_and_the_plan_says_what_was_not_checked(
    tao: Tao, platform: str, dead: dict[str, str], place: str, unchecked: str
) -> None:
    asked = ("--platform", platform, "--image", "x", "--gpus", "2", "--", "true")
    ran = tao("plan", *asked, timeout=300, **dead)
    assert ran.code == 0
    assert "(did not answer)" in ran.out.splitlines()[0]
    assert f"Not asked: the {place} did not answer. {unchecked}" in ran.out
    plan = tao("plan", "--json", *asked, timeout=300, **dead).json
    assert plan["asked"] is False
    assert plan["findings"][0]["code"] == "plan.not_asked"
    assert tao("run", *asked, timeout=300, **dead).code == 4
    assert tao("ls", "--json").json == []


def test_a_plan_is_made_although_ssh_would_refuse_the_key(tao: Tao) -> None:
    key = tao.home / "key"
    key.write_text("no key")
    key.chmod(0o644)
    login = {**DEAD_CLUSTER, "SSH_KEY_PATH": str(key)}
    asked = ("--platform", "slurm", "--image", "x", "--gpus", "2", "--", "true")
    ran = tao("plan", *asked, timeout=300, **login)
    assert ran.code == 0
    assert "(did not answer)" in ran.out.splitlines()[0]
    assert "can be read by others (mode 0644)" in ran.out
    assert f"chmod 600 {key}" in ran.out
    assert tao("run", *asked, timeout=300, **login).code == 2


def test_a_plan_of_a_place_that_answers_says_so(tao: Tao) -> None:
    assert tao("plan", "--gpus", "0", "--json", "--", "true").json["asked"] is True


def test_a_job_that_is_wrong_is_refused_although_its_place_does_not_answer(tao: Tao) -> None:
    ran = tao(
        "plan", "--platform", "docker", "--gpus", "0", "--", "true", timeout=300, **DEAD_DAEMON
    )
    assert ran.code == 2
    assert "needs an image" in ran.out + ran.err


def test_a_plan_that_would_be_refused_ends_with_2_and_shows_the_finding(tao: Tao) -> None:
    ran = tao("plan", "--gpus", "512", "--json", "--", "true")
    assert ran.code == 2
    assert "error" in {finding["severity"] for finding in ran.json["findings"]}


def test_a_plan_shows_the_values_that_were_set(tao: Tao) -> None:
    tao.write("args.yaml", "command: train {lr}\nargs: {lr: 0.1, big: [1, 2]}\ngpu_count: 0\n")
    told = tao("plan", "args.yaml", "--set", "lr=3")
    assert "  args     lr=3  big=[1, 2]" in told.out.splitlines()
    assert tao("plan", "args.yaml", "--set", "lr=3", "--json").json["args"] == {
        "lr": 3,
        "big": [1, 2],
    }
    tao.write("specs.yaml", "command: cat {config_path}\nspecs: {train: {lr: 0.1}}\ngpu_count: 0\n")
    told = tao("plan", "specs.yaml", "--set", "train.lr=3")
    assert "  specs    train.lr=3" in told.out.splitlines()
    assert "lr: 3" in tao("plan", "specs.yaml", "--set", "train.lr=3", "--full").out
    assert tao("plan", "--gpus", "0", "--json", "--", "true").json["args"] is None


def test_a_plan_says_that_its_id_is_an_example(tao: Tao) -> None:
    assert "each run draws its own" in tao("plan", "--gpus", "0", "--", "true").out

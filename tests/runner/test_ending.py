"""What the command wrote last: whole where it ended by itself, not known to be
where it was ended.
"""

from __future__ import annotations

import os
import signal

import pytest

TRAINER = """
import signal, sys, time
def save(*_):
    time.sleep(0.3)
    open(sys.argv[1] + "/model_epoch_007.pth", "w").write("saved")
    sys.exit(int(sys.argv[2]))
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(100)
"""


@pytest.mark.parametrize(
    "command",
    [
        "python3 t.py $TAO_RESULTS_DIR 0", "python3 t.py $TAO_RESULTS_DIR 3", "python3 t.py $TAO_RESULTS_DIR 143",
     "echo begun; python3 t.py $TAO_RESULTS_DIR 143; echo more"],
)  # fmt: skip
def test_a_checkpoint_that_was_saved_when_the_job_was_told_to_end_is_whole(jobs, command):
    job = jobs.start(command, files={"t.py": TRAINER})
    job.until(b"ready")
    job.process.send_signal(signal.SIGTERM)
    assert job.ended().files["model_epoch_007.pth"]["sha256"]


def test_a_checkpoint_of_a_program_that_failed_when_it_was_told_to_end_may_have_been_cut_off(jobs):
    """With 1 an uncaught error ends a program: perhaps that of its save."""
    job = jobs.start("python3 t.py $TAO_RESULTS_DIR 1", files={"t.py": TRAINER})
    job.until(b"ready")
    job.process.send_signal(signal.SIGTERM)
    assert not job.ended().files["model_epoch_007.pth"]["sha256"]


CRASHING = """
import os, signal, sys, time
shell = os.getppid()
def save(*_):
    while os.getppid() == shell:
        time.sleep(0.01)
    time.sleep(0.3)
    with open(sys.argv[1] + "/model_epoch_007.pth", "w") as file:
        file.write("half")
        file.flush()
        if sys.argv[2] == "1":
            raise ValueError("no room")
        os.kill(os.getpid(), int(sys.argv[2]))
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(100)
"""


@pytest.mark.parametrize("how", ["1", "6", "11"])
@pytest.mark.parametrize(
    "command",
    [
        "python3 -u t.py $TAO_RESULTS_DIR {0} 2>&1 | tee log",
        "python3 t.py $TAO_RESULTS_DIR {0}; echo more",
        "bash job.sh",
    ],
)
def test_a_checkpoint_of_a_program_that_failed_below_a_shell_may_have_been_cut_off(
    jobs, command, how
):
    script = f"python3 t.py $TAO_RESULTS_DIR {how}\necho more\n"
    job = jobs.start(command.format(how), files={"t.py": CRASHING, "job.sh": script})
    job.until(b"ready")
    job.process.send_signal(signal.SIGTERM)
    assert not job.ended().files["model_epoch_007.pth"]["sha256"]


@pytest.mark.parametrize("how", ["6", "11"])
def test_a_checkpoint_of_a_program_that_crashed_when_it_was_told_to_end_may_have_been_cut_off(
    jobs, how
):
    program = CRASHING.replace("os.getppid() == shell", "False")
    job = jobs.start(f"exec python3 t.py $TAO_RESULTS_DIR {how}", files={"t.py": program})
    job.until(b"ready")
    job.process.send_signal(signal.SIGTERM)
    assert not job.ended().files["model_epoch_007.pth"]["sha256"]


@pytest.mark.parametrize(
    "command", ["python3 t.py $TAO_RESULTS_DIR 0 2>&1 | tee log", "bash job.sh"]
)
def test_a_checkpoint_that_was_saved_below_a_shell_is_whole_with_all_before_it(jobs, command):
    script = "touch $TAO_RESULTS_DIR/epoch_6.pth; python3 t.py $TAO_RESULTS_DIR 0; echo more"
    job = jobs.start(command, files={"t.py": TRAINER, "job.sh": script})
    job.until(b"ready")
    job.process.send_signal(signal.SIGTERM)
    files = job.ended().files
    assert all(files[name]["sha256"] for name in files if name.endswith(".pth"))
    assert "model_epoch_007.pth" in files


COUNTER = """
import signal, sys, time
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
print("ready", flush=True)
while not told:
    time.sleep(0.01)
time.sleep(1)
print("told", len(told), flush=True)
"""


@pytest.mark.parametrize(
    "command", ["python3 t.py", "python3 t.py; echo more", "echo begun\npython3 t.py && echo more"]
)
def test_a_command_is_told_to_end_once_also_where_its_shell_ends_first(jobs, command):
    job = jobs.start(command, files={"t.py": COUNTER})
    job.until(b"ready")
    job.process.send_signal(signal.SIGTERM)
    assert b"told 1\n" in job.ended().out


def test_what_was_written_by_a_command_that_had_to_be_killed_may_have_been_cut_off(jobs):
    command = (
        "trap 'echo half > $TAO_RESULTS_DIR/epoch_7.pth' TERM; echo "
        "ready; while :; do sleep 0.05; done"
    )
    job = jobs.start(command, files={"x": ""}, env={"TAO_GRACE": "1"})
    job.until(b"ready")
    job.process.send_signal(signal.SIGTERM)
    ran = job.ended()
    assert ran.code == 137
    assert ran.files["epoch_7.pth"]["sha256"] is None


def test_what_was_written_just_before_the_end_was_asked_for_may_have_been_cut_off(jobs):
    job = jobs.start(
        "echo half > $TAO_RESULTS_DIR/epoch_7.pth; echo ready; exec sleep 100", files={"x": ""}
    )
    job.until(b"ready")
    job.process.send_signal(signal.SIGTERM)
    assert job.ended().files["epoch_7.pth"]["sha256"] is None


SLOW_TRAINER = TRAINER.replace("time.sleep(0.3)", "time.sleep(3)")
DEAF = "trap '' TERM; echo ready; while :; do sleep 0.05; done"


def cancel(job, grace_file, text):
    """What a platform does: write the grace, then signal."""
    job.until(b"ready")
    grace_file.write_text(text)
    job.process.send_signal(signal.SIGTERM)
    return job.ended()


@pytest.mark.parametrize("text", ["120", "120.000", "120\n", "9" * 60])
def test_a_cancel_can_give_a_command_more_time_than_the_job_has(jobs, tmp_path, text):
    grace_file = tmp_path / "grace"
    env = {"TAO_GRACE": "1", "TAO_GRACE_FILE": str(grace_file)}
    job = jobs.start("python3 t.py $TAO_RESULTS_DIR 0", files={"t.py": SLOW_TRAINER}, env=env)
    assert cancel(job, grace_file, text).files["model_epoch_007.pth"]["sha256"]


@pytest.mark.parametrize("text", ["0", "0.5", ".5"])
def test_a_cancel_can_give_a_command_less_time_than_the_job_has(jobs, tmp_path, text):
    grace_file = tmp_path / "grace"
    env = {"TAO_GRACE": "3000", "TAO_GRACE_FILE": str(grace_file)}
    job = jobs.start(DEAF, files={"x": ""}, env=env)
    assert cancel(job, grace_file, text).code == 137


@pytest.mark.parametrize("text", ["", "-1", "1e9", "inf", "nan", "0x999", "999 s", "9_9", "\u0669"])
def test_a_grace_that_is_no_plain_number_is_not_believed(jobs, tmp_path, text):
    grace_file = tmp_path / "grace"
    env = {"TAO_GRACE": "1", "TAO_GRACE_FILE": str(grace_file)}
    job = jobs.start(DEAF, files={"x": ""}, env=env)
    assert cancel(job, grace_file, text).code == 137


def make_link(path):
    (path.parent / "elsewhere").write_text("3000")
    path.symlink_to(path.parent / "elsewhere")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, make_link])
def test_a_grace_file_that_is_no_plain_file_is_not_waited_for(jobs, tmp_path, make):
    grace_file = tmp_path / "grace"
    make(grace_file)
    env = {"TAO_GRACE": "1", "TAO_GRACE_FILE": str(grace_file)}
    job = jobs.start(DEAF, files={"x": ""}, env=env)
    job.until(b"ready")
    job.process.send_signal(signal.SIGTERM)
    assert job.ended().code == 137

"""Which files of a job's results are its checkpoints, and which of them are whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from tao_sdk.platforms.local import LocalSDK

SAVES = "trap 'echo 2 > {0}/model_epoch_002.pth; exit {1}' TERM"
TRAIN = "mkdir -p {0}; echo 1 > {0}/model_epoch_001.pth; sleep 30 & wait"
WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [["out"], None])
@pytest.mark.parametrize(("code", "whole"), [(75, True), (143, False)])
def test_checkpoints_of_a_command_that_saved_at_its_time_limit_and_ended_are_whole(
    sdk: LocalSDK, outputs: list[str] | None, code: int, whole: bool
) -> None:
    folder = "out" if outputs else "$TAO_RESULTS_DIR/out"
    job = sdk.create_job(
        command=f"{SAVES.format(folder, code)}; {TRAIN.format(folder)}",
        outputs=outputs,
        gpu_count=0,
        time_limit=timedelta(seconds=1),
    )
    assert sdk.wait(job.id, timeout=300).status == "Error"
    left = sdk.results(job.id)
    names = [Path(each.path).name for each in left.checkpoints]
    assert names == ["model_epoch_001.pth", "model_epoch_002.pth"]
    assert all(each.complete for each in left.checkpoints) is whole
    if whole:
        assert (left.newest or "").endswith("model_epoch_002.pth")


SAVING = """
import os, signal, sys, time
def save(*_):
    time.sleep(0.2)
    with open(os.environ["TAO_RESULTS_DIR"] + "/model_epoch_001.pth", "w") as file:
        file.write("1")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
while True:
    time.sleep(0.1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["{0}", "true && {0}", "{0}\necho next"])
def test_the_last_checkpoint_of_a_program_that_a_shell_waits_for_is_whole(
    sdk: LocalSDK, command: str
) -> None:
    Path("saving.py").write_text(SAVING)
    job = sdk.create_job(command=command.format(f"{sys.executable} saving.py"), gpu_count=0)
    while "up" not in sdk.get_job_logs(job.id):
        time.sleep(0.05)
    assert sdk.cancel_job(job.id)
    assert [each.complete for each in sdk.results(job.id).checkpoints] == [True]


SAVING_AT_ONCE = """
import os, signal, sys, time
shell = os.getppid()
def save(*_):
    with open("interrupted.pth", "w") as file:
        file.write("1")
    while "outlive" in sys.argv and os.getppid() == shell:
        time.sleep(0.01)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
for epoch in (8, 9):
    with open(f"epoch_{epoch}.pth", "w") as file:
        file.write("1")
print("up", flush=True)
while True:
    time.sleep(0.1)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["{0} saving.py", "{0} saving.py outlive\necho next", "bash job.sh"]
)
def test_what_a_program_with_files_saved_when_it_was_canceled_is_whole_and_the_newest(
    sdk: LocalSDK, command: str
) -> None:
    """Also where a shell around it dies of the signal, which is all that the runner sees."""
    script = f"echo first\n{sys.executable} saving.py outlive\necho next\n"
    job = sdk.create_job(
        command=command.format(sys.executable),
        files={"saving.py": SAVING_AT_ONCE, "job.sh": script},
        gpu_count=0,
    )
    while "up" not in sdk.get_job_logs(job.id):
        time.sleep(0.05)
    assert sdk.cancel_job(job.id)
    left = sdk.results(job.id)
    assert [each.complete for each in left.checkpoints] == [True, True, True]
    assert left.newest == f"{left.dir}/work/interrupted.pth"


def test_what_a_program_with_files_wrote_when_the_signal_ended_it_is_not_whole(
    sdk: LocalSDK,
) -> None:
    cut_off = "import time\nopen('epoch_1.pth', 'w').write('1')\nprint('up', flush=True)\n"
    job = sdk.create_job(
        command=f"{sys.executable} cut_off.py\necho next",
        files={"cut_off.py": f"{cut_off}time.sleep(300)"},
        gpu_count=0,
    )
    while "up" not in sdk.get_job_logs(job.id):
        time.sleep(0.05)
    assert sdk.cancel_job(job.id)
    left = sdk.results(job.id)
    assert ([each.complete for each in left.checkpoints], left.newest) == ([False], None)


CRASHING = """
import os, signal, sys, time
shell = os.getppid()
def save(*_):
    while "outlive" in sys.argv and os.getppid() == shell:
        time.sleep(0.01)
    with open(os.environ["TAO_RESULTS_DIR"] + "/model_epoch_002.pth", "w") as file:
        file.write("half")
        file.flush()
        raise ValueError("no room")
signal.signal(signal.SIGTERM, save)
path = os.environ["TAO_RESULTS_DIR"] + "/model_epoch_001.pth"
with open(path, "w") as file:
    file.write("1")
os.utime(path, (time.time() - 60, time.time() - 60))
print("up", flush=True)
while True:
    time.sleep(0.1)
"""
HIDING = "trap : TERM; {0} crashing.py & wait; wait; true"


@pytest.mark.slow
@pytest.mark.parametrize("carried", [True, False])
@pytest.mark.parametrize(
    "command", ["{0} crashing.py", "{0} crashing.py outlive 2>&1 | tee log", "bash job.sh"]
)
def test_what_a_program_wrote_when_it_failed_at_the_cancel_is_not_whole(
    sdk: LocalSDK, command: str, carried: bool
) -> None:
    """Also below a shell or a tee, which the signal ends before the program."""
    script = f"{sys.executable} crashing.py outlive\necho next\n"
    files = {"crashing.py": CRASHING, "job.sh": script}
    for name, text in files.items():
        Path(name).write_text(text)
    job = sdk.create_job(
        command=command.format(sys.executable), files=files if carried else None, gpu_count=0
    )
    while "up" not in sdk.get_job_logs(job.id):
        time.sleep(0.05)
    assert sdk.cancel_job(job.id)
    assert [each.complete for each in sdk.results(job.id).checkpoints] == [True, False]
    assert sdk.get_job(job.id).exit_code == 1


def test_a_traceback_at_the_end_of_the_log_tells_of_a_failure_that_a_shell_hides(
    sdk: LocalSDK,
) -> None:
    Path("crashing.py").write_text(CRASHING)
    job = sdk.create_job(command=HIDING.format(sys.executable), gpu_count=0)
    while "up" not in sdk.get_job_logs(job.id):
        time.sleep(0.05)
    assert sdk.cancel_job(job.id)
    assert sdk.get_job(job.id).exit_code == 0
    assert [each.complete for each in sdk.results(job.id).checkpoints] == [True, False]


FAILING = """
import os, sys, time
for epoch in (1, 2, 3):
    path = os.environ["TAO_RESULTS_DIR"] + f"/model_epoch_00{epoch}.pth"
    with open(path, "w") as file:
        file.write("1")
    if epoch == 1:
        os.utime(path, (time.time() - 60, time.time() - 60))
sys.exit(1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("args", [None, {"lr": 0.1}])
def test_the_last_checkpoints_before_a_failure_are_unsure_for_every_kind_of_job(
    sdk: LocalSDK, args: dict[str, float] | None
) -> None:
    Path("failing.py").write_text(FAILING)
    job = sdk.create_job(command=f"{sys.executable} failing.py", args=args, gpu_count=0)
    assert sdk.wait(job.id, timeout=300).status == "Error", sdk.get_job_logs(job.id)
    assert [each.complete for each in sdk.results(job.id).checkpoints] == [True, False, False]


def test_a_checkpoint_that_was_copied_to_the_results_as_an_output_is_listed_once(
    sdk: LocalSDK,
) -> None:
    job = sdk.create_job(
        command="sh train.sh",
        files={"train.sh": b"mkdir out; echo 1 > out/model_epoch_001.pth"},
        outputs=["out"],
        gpu_count=0,
    )
    assert sdk.wait(job.id, timeout=300).status == "Complete", sdk.get_job_logs(job.id)
    left = sdk.results(job.id)
    assert [each.path for each in left.checkpoints] == [f"{left.dir}/out/model_epoch_001.pth"]


def test_a_checkpoint_that_travelled_with_the_job_is_none_of_its_own(sdk: LocalSDK) -> None:
    job = sdk.create_job(
        command="touch -d '1 hour' last_epoch_2.pt; cat best.pt",
        files={"best.pt": b"1", "last_epoch_2.pt": b"2"},
        gpu_count=0,
    )
    assert sdk.wait(job.id, timeout=300).status == "Complete", sdk.get_job_logs(job.id)
    names = [Path(each.path).name for each in sdk.results(job.id).checkpoints]
    assert names == ["last_epoch_2.pt"], "it was written again"


def test_an_input_that_lies_among_the_results_is_no_checkpoint(sdk: LocalSDK) -> None:
    Path("model_epoch_009.pth").write_text("mine")
    job = sdk.create_job(
        command="sh train.sh",
        files={"train.sh": b"cp start.pth $TAO_RESULTS_DIR/model_epoch_001.pth"},
        inputs={"start.pth": "model_epoch_009.pth", "more/last.pth": "model_epoch_009.pth"},
        gpu_count=0,
    )
    assert sdk.wait(job.id, timeout=300).status == "Complete", sdk.get_job_logs(job.id)
    left = sdk.results(job.id)
    assert [Path(each.path).name for each in left.checkpoints] == ["model_epoch_001.pth"]
    assert (left.newest or "").endswith("model_epoch_001.pth")


LOOK = """
import json, sys
from tao_sdk.model.settings import Settings
from tao_sdk.platforms.local import LocalSDK
with LocalSDK(settings=Settings(json.loads(sys.argv[1]))) as sdk:
    left, skipped = sdk.results(sys.argv[2]), []
    copied = sdk.fetch_results(sys.argv[2], "copy", on_skip=lambda *told: skipped.append(told))
    print(json.dumps([[file.path for file in left.files], left.unreadable, skipped]))
"""


@pytest.mark.slow
def test_a_folder_that_may_not_be_read_is_named_and_the_rest_is_shown(
    sdk: LocalSDK, tmp_path: Path
) -> None:
    command = "cd $TAO_RESULTS_DIR; mkdir a shut z; touch a/1 shut/2 z/3"
    job = sdk.create_job(command=command, gpu_count=0)
    assert sdk.wait(job.id, timeout=300).status == "Complete"
    shut = Path(job.results_dir) / "shut"
    shut.chmod(0)
    try:
        words = [sys.executable, "-c", LOOK, json.dumps(dict(sdk.settings.environ)), job.id]
        ran = subprocess.run([*WITHOUT_RIGHTS, *words], capture_output=True, text=True, check=True)
    finally:
        shut.chmod(0o700)
    files, unreadable, skipped = json.loads(ran.stdout)
    assert [Path(path).name for path in files] == ["1", "3"]
    assert unreadable == [str(shut)]
    assert skipped == [["shut", "The folder cannot be looked into."]]


@pytest.mark.slow
@pytest.mark.parametrize("files", [{"eval.py": b"print(1)"}, {}])
def test_an_input_that_the_job_did_not_change_is_no_result(
    sdk: LocalSDK, tmp_path: Path, files: dict[str, bytes]
) -> None:
    trained = tmp_path / "trained.pth"
    trained.write_text("weights")
    os.utime(trained, (1e9, 1e9))
    job = sdk.create_job(
        command="mkdir -p out; cat out/best.pth; echo 1 > out/metrics.json",
        files=files,
        inputs={"out/best.pth": str(trained)},
        outputs=["out"],
        gpu_count=0,
    )
    assert sdk.wait(job.id, timeout=300).status == "Complete"
    left = sdk.results(job.id)
    names = {Path(file.path).name for file in left.files}
    assert ("metrics.json" in names, "best.pth" in names) == (True, False)
    assert (left.checkpoints, left.best, left.newest) == ([], None, None)
    copies = sdk.fetch_results(job.id, tmp_path / "here")
    assert "best.pth" not in {copy.name for copy in copies}


@pytest.mark.slow
def test_an_input_that_the_job_wrote_again_is_a_result(sdk: LocalSDK, tmp_path: Path) -> None:
    trained = tmp_path / "trained.pth"
    trained.write_text("weights")
    os.utime(trained, (1e9, 1e9))
    job = sdk.create_job(
        command="echo more >> out/best.pth",
        inputs={"out/best.pth": str(trained)},
        outputs=["out"],
        gpu_count=0,
    )
    assert sdk.wait(job.id, timeout=300).status == "Complete"
    assert [Path(each.path).name for each in sdk.results(job.id).checkpoints] == ["best.pth"]

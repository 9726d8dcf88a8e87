"""`tao doctor JOB_FILE`: what a launch needs is looked at, and what cannot be is an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.tao_command import Ran, Tao

JOB = """\
command: 'cat {config_path} #'
gpu_count: 0
specs: {notes: NOTES, media: MEDIA}
inputs: {notes: {type: file}, media: {type: folder}}
"""
MODEL = """\
name: toy
container_image: registry.example/toy:1
required_credentials: [{name: TOY_TOKEN, description: the login to Toy}]
actions: {train: {mode: config, command: 'true {config_path}', config_format: yaml}}
"""


@pytest.fixture
def job(tao: Tao) -> Path:
    """A job with an annotation file of two records, and a folder."""
    notes = tao.home / "notes.json"
    notes.write_text('[{"fps": 1}, {"fps": 2, "id": 1}]')
    (tao.home / "media").mkdir()
    tao.write("job.yaml", JOB.replace("NOTES", str(notes)).replace("MEDIA", f"{tao.home}/media"))
    return notes


def codes(ran: Ran) -> list[tuple[str, str]]:
    """(severity, code) of what was found for the job."""
    found = [(each["severity"], each["code"]) for each in ran.json["findings"]]
    return [each for each in found if not each[1].startswith("local.")]


@pytest.mark.usefixtures("job")
def test_the_records_of_a_job_are_counted_and_its_results_have_a_place(tao: Tao) -> None:
    ran = tao("doctor", "job.yaml", "--json")
    assert (ran.code, codes(ran)) == (
        0,
        [
            ("ok", "dataset.records"),
            ("ok", "dataset.there"),
            ("ok", "results.place"),
            ("ok", "job.ready"),
        ],
    )
    assert f"notes: {tao.home}/notes.json records=2" in tao("doctor", "job.yaml").out


def test_fields_and_batches_that_do_not_fit_are_errors(tao: Tao, job: Path) -> None:
    ran = tao("doctor", "job.yaml", "--json-required-field", "notes=fps,id", "--json")
    assert (ran.code, codes(ran)[0]) == (2, ("error", "dataset.field_missing"))
    ran = tao("doctor", "job.yaml", "--effective-batch-limit", "notes=2,2", "--json")
    assert (ran.code, codes(ran)[0]) == (2, ("error", "dataset.batch_too_large"))
    job.write_text("[{]")
    ran = tao("doctor", "job.yaml", "--json")
    assert (ran.code, codes(ran)[0]) == (2, ("error", "dataset.unreadable"))


@pytest.mark.usefixtures("job")
def test_a_need_of_what_the_job_does_not_have_is_a_mistake(tao: Tao) -> None:
    ran = tao("doctor", "job.yaml", "--json-required-field", "labels=fps", "--json")
    assert (ran.code, ran.error["code"]) == (2, "usage")
    assert "'labels' names no input of the job: notes, media" in ran.error["message"]
    assert tao("doctor", "job.yaml", "--effective-batch-limit", "notes=0,1").code == 2
    assert "no job is named" in tao("doctor", "--json-required-field", "a=b").err
    assert tao("doctor", "--option", "a=b").code == 2


SELECTIVE = """\
command: 'cat {config_path} #'
gpu_count: 0
specs: {notes: NOTES, media: MEDIA}
inputs:
  notes: {type: file}
  media: {type: folder, selective: {annotation: notes, keys: [video]}}
"""


def test_the_media_that_an_annotation_names_are_looked_for(tao: Tao, job: Path) -> None:
    tao.write(
        "job.yaml", SELECTIVE.replace("NOTES", str(job)).replace("MEDIA", f"{tao.home}/media")
    )
    (tao.home / "media" / "a.mp4").touch()
    job.write_text('[{"video": "a.mp4"}, {"turns": [{"video": ["./b c.mp4", "a.mp4"]}]}]')
    told = tao("doctor", "job.yaml", "--json")
    missing = next(each for each in told.json["findings"] if each["severity"] == "error")
    assert (told.code, missing["code"]) == (2, "dataset.media_missing")
    assert "1 of the first 2 files that notes names are not in media, first ./b c.mp4" in str(
        missing
    )
    (tao.home / "media" / "b c.mp4").touch()
    assert ("ok", "dataset.media") in codes(tao("doctor", "job.yaml", "--json"))
    job.write_text('[{"video": "../notes.json"}]')
    assert ("error", "dataset.media_missing") in codes(tao("doctor", "job.yaml", "--json"))
    job.write_text('[{"clip": "a.mp4"}]')
    assert ("error", "dataset.no_media") in codes(tao("doctor", "job.yaml", "--json"))


COCO = """\
command: 'cat {config_path} #'
gpu_count: 0
specs: {train: {sources: [{image_dir: MEDIA, json_file: NOTES}]}}
inputs:
  "train.sources[0].json_file": {type: file}
  "train.sources[0].image_dir": {type: folder}
"""


def test_the_images_of_a_coco_document_are_looked_for_beside_it(tao: Tao, job: Path) -> None:
    tao.write("job.yaml", COCO.replace("NOTES", str(job)).replace("MEDIA", f"{tao.home}/media"))
    images = [{"file_name": "a.jpg"}, {"file_name": "b/c.jpg"}, {"file_name": "/elsewhere.jpg"}]
    job.write_text(json.dumps({"images": images, "annotations": [{"file_name": "mask.png"}]}))
    (tao.home / "media" / "a.jpg").touch()
    told = tao("doctor", "job.yaml", "--json")
    (missing,) = [each for each in told.json["findings"] if each["severity"] == "error"]
    assert (told.code, missing["code"]) == (2, "dataset.media_missing")
    assert missing["what"].startswith("1 of the first 2 files that train.sources[0].json_file")
    (tao.home / "media" / "b").mkdir()
    (tao.home / "media" / "b" / "c.jpg").touch()
    assert ("ok", "dataset.media") in codes(tao("doctor", "job.yaml", "--json"))


def test_a_job_is_described_by_the_flags_of_run_too(tao: Tao) -> None:
    ran = tao("doctor", "--model", "digits", "--action", "train", "--set", "num_epochs=3", "--json")
    assert (ran.code, codes(ran)[-1]) == (0, ("ok", "job.ready"))
    ran = tao("doctor", "--gpus", "0", "--json", "--", "cat", "x")
    assert (ran.code, codes(ran)[-1]) == (0, ("ok", "job.ready"))
    ran = tao("doctor", "docker", "--gpus", "0", "--", "cat", "x", DOCKER_HOST="unix:///nowhere")
    assert (ran.code, "docker needs an image." in ran.out) == (2, True)


def test_what_cannot_be_looked_at_is_an_error_of_the_doctor(tao: Tao) -> None:
    away = {"S3_ENDPOINT_URL": "http://127.0.0.1:9", "ACCESS_KEY": "a", "SECRET_KEY": "hidden-one"}
    tao.write("job.yaml", "command: cat /x\ngpu_count: 0\ninputs: {/x: s3://bucket/x.json}\n")
    assert tao("plan", "job.yaml", **away).code == 0
    ran = tao("doctor", "job.yaml", "--json", **away)
    assert (ran.code, codes(ran)[-1][0]) == (2, "error")
    assert "hidden-one" not in ran.out


def test_a_credential_of_the_model_is_asked_for_and_never_shown(tao: Tao, tmp_path: Path) -> None:
    skill = tmp_path / "bank" / "skills" / "toy"
    skill.mkdir(parents=True)
    (skill / "skill_info.yaml").write_text(MODEL)
    (tmp_path / "bank" / "versions.yaml").write_text("images: {}\n")
    words = ("doctor", "--model", "toy", "--action", "train", "--skill-bank", f"{tmp_path}/bank")
    ran = tao(*words, "--gpus", "0", "--json")
    assert (ran.code, codes(ran)[0]) == (2, ("error", "credential.missing"))
    assert json.loads(ran.out)["findings"][-2]["evidence"]
    ran = tao(*words, "--gpus", "0", TOY_TOKEN="hidden-one")
    assert ("TOY_TOKEN set." in ran.out, "hidden-one" in ran.out) == (True, False)


def test_the_machine_that_an_action_needs_is_looked_at(tao: Tao, tmp_path: Path) -> None:
    needs = (
        "mode: config, runtime_requirements: {gpu_host: {min_gpu_count: 4, min_gpu_memory_gb: 80}}"
    )
    info = tmp_path / "bank" / "skills" / "toy" / "skill_info.yaml"
    info.parent.mkdir(parents=True)
    info.write_text(MODEL.replace("mode: config", needs))
    words = ("--model", "toy", "--action", "train", "--skill-bank", str(tmp_path / "bank"))
    ran = tao("doctor", *words, "--platform", "local", "--gpus", "1", "--json")
    assert ("error", "gpu.too_few") in codes(ran), ran.out
    assert any(code.startswith("gpu.not_seen") or code == "gpu.memory" for _, code in codes(ran))


def test_the_flags_of_the_doctor_are_told(tao: Tao) -> None:
    told = tao("doctor", "--help").out
    assert "--json-required-field" in told
    assert "--model" in told


def test_a_plan_shows_the_data_where_no_other_line_does(tao: Tao) -> None:
    tao.write("job.yaml", JOB.replace("NOTES", "/etc/passwd").replace("MEDIA", "/etc"))
    assert "  data " not in tao("plan", "job.yaml").out
    shown = tao("plan", "--gpus", "0", "--inputs", "/x=/etc/passwd", "--", "cat /x")
    assert "  data     /x=/etc/passwd" in shown.out.splitlines()


@pytest.mark.usefixtures("job")
def test_gpus_and_disk_are_looked_at_as_the_script_of_the_bank_does(
    tao: Tao, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text("#!/bin/sh\necho 'NVIDIA A100, 40960, 8.0'\n")
    (tools / "nvidia-smi").chmod(0o755)
    path = {"PATH": f"{tools}:/usr/bin:/bin"}
    words = ("doctor", "job.yaml", "--json", "--gpu-min-memory-gb", "40")
    ran = tao(*words, "--min-free-disk-gb", "0.001", **path)
    assert (ran.code, codes(ran)[:2]) == (0, [("ok", "gpu.there"), ("ok", "disk.free")])
    lists = ("--gpu-arch-allowlist", "a=sm_90", "--gpu-arch-allowlist", "b=sm_80")
    ran = tao(*words, *lists, "--gpu-min-count", "2", **path)
    assert (ran.code, codes(ran)[:2]) == (2, [("error", "gpu.too_few"), ("error", "gpu.arch")])
    assert tao("doctor", "--gpu-min-count", "1").code == 2
    ran = tao(*words, PATH="/nowhere")
    assert (ran.code, codes(ran)[0]) == (2, ("error", "gpu.not_seen"))

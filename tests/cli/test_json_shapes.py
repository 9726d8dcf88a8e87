"""The JSON that programs read: its keys are those that docs/json.md promises; keys may be added
there, never removed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.tao_command import Ended, Tao
from tao_sdk.cli import exit_codes
from tao_sdk.cli.verbs import VERBS
from tao_sdk.model.fields import settings_of
from tao_sdk.model.spec import JobSpec

DOCS = Path(__file__).parents[2] / "docs"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

# What was ever published. A key that is missing here and in the documents is not promised yet.
JOB = {
    "schema", "id", "name", "platform", "status", "message", "attempt", "exit_code", "image",
    "gpu_count", "labels", "parent",
    "progress", "created", "started", "ended", "seen_at", "results_dir", "backend_details",
}  # fmt: skip
PROMISED: Mapping[str, set[str]] = {
    "Jobs": JOB,
    "Progress": {
        "epoch", "epochs", "metrics", "best_epoch", "best_metric", "best_value", "eta_seconds",
        "history", "not_finite", "first_not_finite",
        "counts_from_zero",
    },
    "Events": {"seq", "job", "time", "kind", "status", "raw", "data"},
    "Plans": {
        "schema", "id", "platform", "endpoint", "request", "files", "secrets", "results_dir",
        "notes", "backend_details", "command",
        "findings",
    },
    "Findings": {"severity", "code", "what", "evidence", "fix"},
    "Diagnoses": {"schema", "job", "status", "message", "diagnosis"},
    "Results": {"schema", "job", "dir", "elsewhere", "best", "newest", "progress", "files",
         "fetched"},
    "Paths": {"schema", "path", "is_dir", "size", "mtime", "files"},
    "Errors": {"code", "message", "cause", "next", "hint"},
}  # fmt: skip


def table(page: str, heading: str) -> list[str]:
    """The first cells of the table below a heading."""
    _, _, below = (DOCS / page).read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    return re.findall(
        r"^\| `?([\w-]+)`? ",
        re.split(r"^## ", below, maxsplit=1, flags=re.MULTILINE)[0],
        re.MULTILINE,
    )[1:]


@pytest.mark.parametrize("kind", PROMISED)
def test_the_documents_promise_what_was_published(kind: str) -> None:
    assert PROMISED[kind] <= set(table("json.md", kind))


def assert_shape(kind: str, value: Mapping[str, Any]) -> None:
    assert set(value) == set(table("json.md", kind)), kind


def test_a_job_has_the_documented_keys_and_types(ended: Ended) -> None:
    job = ended.tao("status", "--json", ended.complete).json
    assert_shape("Jobs", job)
    assert_shape("Progress", job["progress"])
    assert job["schema"] == 1
    assert (job["status"], job["exit_code"], job["attempt"], job["parent"]) == (
        "Complete",
        0,
        1,
        None,
    )
    assert all(TIME.fullmatch(job[moment]) for moment in ("created", "started", "ended", "seen_at"))
    assert job["backend_details"]["backend_type"] == "local"
    assert (job["labels"], job["progress"]["epochs"]) == ({"team": "vision"}, 3)
    assert_shape("Progress", ended.tao("status", "--json", ended.canceled).json["progress"])


def test_the_list_the_waited_for_and_the_canceled_are_the_same_objects(ended: Ended) -> None:
    listed = {job["id"]: job for job in ended.tao("ls", "--json", "--full").json}
    assert set(listed) == {ended.complete, ended.failed, ended.canceled}
    for job in listed.values():
        assert_shape("Jobs", job)
    assert ended.tao("wait", "--json", ended.failed).json == listed[ended.failed]
    assert ended.tao("cancel", "--json", ended.complete).json == listed[ended.complete]


def test_events_diagnoses_results_and_paths_have_the_documented_keys(ended: Ended) -> None:
    for event in ended.tao("events", "--json").json:
        assert_shape("Events", event)
        assert TIME.fullmatch(event["time"])
    why = ended.tao("why", "--json", ended.failed).json
    assert_shape("Diagnoses", why)
    assert set(why["diagnosis"]) == {
        "err_class", "cause", "suggestion", "retryable", "evidence", "rule",
        "job_failure_by_node_event",
        "fault", "again", "after", "reason_code",
    }  # fmt: skip
    results = ended.tao("results", "--json", ended.complete).json
    assert_shape("Results", results)
    assert set(results["files"][0]) == {"path", "is_dir", "size", "mtime"}
    assert_shape("Paths", ended.tao("files", "--json", results["dir"]).json)


def test_a_plan_has_the_documented_keys(tao: Tao) -> None:
    plan = tao("plan", "--json", "--gpus", "512", "--", "true").json
    assert_shape("Plans", plan)
    assert_shape("Findings", plan["findings"][0])


def test_the_doctor_has_the_documented_keys(tao: Tao) -> None:
    found = tao("doctor", "--json").json
    assert set(found) == {"schema", "ready", "findings"}
    for finding in found["findings"]:
        assert_shape(
            "Findings", {name: value for name, value in finding.items() if name != "platform"}
        )
    assert found["findings"][0]["platform"] == "local"


def test_an_error_has_the_documented_keys(tao: Tao) -> None:
    assert_shape("Errors", tao("status", "--json", "none-such").error)


def test_every_verb_says_what_it_prints_and_what_it_does() -> None:
    assert table("cli.md", "Verbs") == list(VERBS)
    _, _, below = (DOCS / "json.md").read_text(encoding="utf-8").partition("\n| verb | prints |\n")
    named = re.findall(
        r"`(\w+)`", "".join(line.split("|")[1] for line in below.partition("\n\n")[0].splitlines())
    )
    assert sorted(named) == sorted(VERBS)


def test_every_exit_code_is_documented() -> None:
    codes = {
        value
        for name, value in vars(exit_codes).items()
        if name.isupper() and isinstance(value, int)
    }
    assert set(map(int, table("cli.md", "Exit codes"))) == codes


def test_every_key_of_a_job_file_is_documented() -> None:
    assert set(table("job-file.md", "Keys")) == {
        *settings_of(JobSpec),
        "platform",
        "options",
        "search",
        "automl_policy",
    }

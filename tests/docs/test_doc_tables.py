"""Tables in the documentation that repeat what the code says: they must say the same."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import tao_sdk
from support import rule_table
from support.pages import ROOT
from tao_sdk.backends.local.options import LocalOptions
from tao_sdk.client import Client, PlatformSDK
from tao_sdk.client.job_file import DECLARATION
from tao_sdk.model import errors
from tao_sdk.model.credentials import KNOWN_NAMES
from tao_sdk.model.fields import settings_of
from tao_sdk.model.status import TERMINAL, Status
from tao_sdk.platforms.local import LocalSDK

try:
    import tomllib
except ModuleNotFoundError:
    import tomli as tomllib

DOCS = ROOT / "docs"


def rows(page: Path, heading: str) -> list[list[str]]:
    """The cells of the tables below a heading of that text, without the tables' heads."""
    _, _, below = page.read_text(encoding="utf-8").partition(f"{heading}\n")
    below = re.split(r"^#", below, maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in below.splitlines() if line.startswith("|")]
    starts = {index for index, line in enumerate(lines) if set(line) <= set("|- ")}
    kept = [
        line for index, line in enumerate(lines) if index not in starts and index + 1 not in starts
    ]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in kept]


def names(cells: list[list[str]]) -> list[str]:
    """What stands in backquotes in the first cells, up to a bracket."""
    return [match for row in cells for match in re.findall(r"`([\w.-]+)", row[0])]


def test_the_table_of_rules_is_the_rules() -> None:
    hint = "python tests/support/rule_table.py writes it anew"
    assert rule_table.parts()[1] == rule_table.table(), hint


def test_every_method_has_its_line_in_the_reference() -> None:
    public = {
        name
        for name, _ in inspect.getmembers(PlatformSDK, inspect.isfunction)
        if not name.startswith("_")
    }
    assert sorted(names(rows(DOCS / "python.md", "## Methods"))) == sorted(public - {"close"})


def test_the_reference_gives_the_parameters_that_a_method_takes() -> None:
    wrong: list[str] = []
    made = {"Client": Client, "LocalSDK": LocalSDK}
    listed = [
        *rows(DOCS / "python.md", "## Making one")[:2],
        *rows(DOCS / "python.md", "## Methods"),
    ]
    for cell, *_ in listed:
        name, _, shown = cell.strip("`").rstrip(")").partition("(")
        parameters = inspect.signature(
            made.get(name) or getattr(PlatformSDK, name)
        ).parameters.values()
        wanted = [parameter.name for parameter in parameters if parameter.name != "self"]
        if re.findall(r"(?:^|, )\**(\w+)", shown) != wanted:
            wrong.append(f"{name}({', '.join(wanted)})")
    assert not wrong


def test_every_public_name_is_in_the_reference() -> None:
    listed = names(rows(DOCS / "python.md", "## Other names"))
    listed += re.findall(r"`tao_sdk\.(\w+)`", (DOCS / "python.md").read_text(encoding="utf-8"))
    assert not set(tao_sdk.__all__) - {name.removeprefix("tao_sdk.") for name in listed}


def test_every_error_is_in_the_reference() -> None:
    shared = {
        name
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.TaoError)
    } - {"TaoError"}
    assert set(names(rows(DOCS / "python.md", "## Errors"))) == shared


def test_every_status_is_explained() -> None:
    explained = {row[0]: row[2] == "yes" for row in rows(DOCS / "jobs.md", "## Its statuses")}
    assert explained == {status.value: status in TERMINAL for status in Status}


def test_every_option_of_the_local_platform_is_explained() -> None:
    assert names(rows(DOCS / "local.md", "## Options")) == list(settings_of(LocalOptions))


def test_every_option_of_an_input_is_one_of_a_job_file() -> None:
    assert {*names(rows(DOCS / "data.md", "## Options")), "uri"} == set(DECLARATION)


def test_every_name_that_the_env_file_takes_is_listed() -> None:
    listed = set(
        re.findall(
            r"`([A-Z][A-Z0-9_]+)`",
            "".join(cell for cell, *_ in rows(DOCS / "state.md", "## Settings")),
        )
    )
    listed |= {
        name for name in names(rows(DOCS / "slurm.md", "## Settings")) if name.startswith("SLURM_")
    }
    assert listed - {"SLURM_"} == KNOWN_NAMES


def test_every_variable_of_ours_that_the_runner_reads_is_explained() -> None:
    package = ROOT / "src" / "tao_sdk"
    read = {
        name
        for room in ("net", "runner")
        for module in (package / room).rglob("*.py")
        for name in re.findall(
            r'(?:get|number)\((?:env, )?"(TAO_[A-Z_]+)"', module.read_text(encoding="utf-8")
        )
    }
    explained = set(
        re.findall(
            r"`(TAO_[A-Z_]+)`",
            "".join(cell for cell, *_ in rows(DOCS / "runner.md", "## Its environment")),
        )
    )
    assert {"TAO_JOB_ID", "TAO_UNPACK_FILES"} <= read <= explained


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [
        *project["project"]["dependencies"],
        *(
            each
            for extra in project["project"].get("optional-dependencies", {}).values()
            for each in extra
        ),
        *(each for group in project["dependency-groups"].values() for each in group),
        *project["build-system"]["requires"],
    ]
    required = {re.split(r"[^\w-]", each)[0] for each in wanted} - {"nvidia-tao-sdk"}
    reasons = rows(DOCS / "dependencies.md", "# Dependencies")
    assert {row[0].strip("`") for row in reasons} == required
    assert all(len(row[1]) > 20 for row in reasons)

from __future__ import annotations

from pathlib import Path

import pytest

from tao_sdk.engine.own_modules import own_module


def missing(name: str) -> str:
    return f"ModuleNotFoundError: No module named '{name}'"


@pytest.mark.parametrize(
    ("name", "files", "found"),
    [
        ("utils", ["imp.py"], "utils.py"),
        ("models", ["imp.py"], "models"),
        ("models.net", ["imp.py"], "models"),
        ("layers", ["src/imp.py"], "src/layers.py"),
        ("data", ["imp.py"], ""),  # a folder without Python files
        ("utils", ["imp.py", "utils.py"], ""),  # it was sent
        ("utils", [], ""),  # the job did not run in a folder of its own
        ("utils", ["/opt/imp.py"], "utils.py"),
        ("secret", ["../imp.py"], ""),
        ("sklearn", ["imp.py"], ""),
    ],
)
def test_a_module_of_the_user_is_found_beside_what_was_sent(
    tmp_path: Path, name: str, files: list[str], found: str
) -> None:
    here = tmp_path / "here"
    for path in ("utils.py", "models/net.py", "src/layers.py", "data/a.csv", "../secret.py"):
        (here / path).parent.mkdir(parents=True, exist_ok=True)
        (here / path).write_text("")
    assert own_module(missing(name), files, [str(tmp_path / "none"), str(here)]) == found

"""Fetching and unpacking under every Python that is here, each alone on its PATH."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.servers.archives import FILES, tarred, zipped
from support.servers.trees import tree

MINOR = "import sys; print(sys.version_info[1])"


def pythons() -> dict[int, Path]:
    """Minor version -> interpreter, from 3.8 on."""
    places = [*Path.home().glob(".pyenv/versions/3.*/bin/python3"), Path(sys.executable)]
    found: dict[int, Path] = {}
    for place in sorted(places):
        told = subprocess.run([place, "-ISc", MINOR], capture_output=True, text=True).stdout.strip()
        if re.fullmatch(r"\d+", told) and int(told) >= 8:
            found.setdefault(int(told), place)
    return found


PYTHONS = pythons()


@pytest.mark.parametrize("minor", sorted(PYTHONS))
def test_every_scheme_and_archive_under_this_python(jobs, paths, hub, ngc, web, tmp_path, minor):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "cat"):
        (tools / name).symlink_to(str(shutil.which(name)))
    (tools / "python3").write_text(f'#!/bin/sh\nexec {PYTHONS[minor]} "$@"\n')
    (tools / "python3").chmod(0o755)
    hub.add("org/name", FILES)
    ngc.add("acme/net", {"1": FILES})
    web.files["/x.zip"] = zipped(tmp_path / "x.zip", FILES).read_bytes()
    (tmp_path / "list.csv").write_text("video\na.txt\n")
    specs = {
        "hub": "hf_model://org/name",
        "ngc": "ngc://acme/net:1",
        "zip": f"{web.url}/x.zip",
        "tar": str(tarred(tmp_path / "y.tar.gz", FILES)),
        "some": "hf_model://org/name",
        "list": str(tmp_path / "list.csv"),
    }
    about = {**{name: {} for name in specs}, "some": {"selective": {"annotation": "list"}}}
    found = paths(specs, about, env={"PATH": str(tools)}, mount_path=str(tmp_path / "mount"))
    assert [tree(found[name]) for name in ("hub", "ngc", "zip", "tar")] == [FILES] * 4
    assert tree(found["some"]) == {"a.txt": b"a"}

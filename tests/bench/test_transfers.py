"""The bench's own transfers, small: each brings all it should, whatever the others are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bench.contenders import Environment, ours
from bench.rounds import ContenderFailed
from bench.scale import QUICK

from bench import s3, s3_jobs

pytestmark = pytest.mark.network


def test_ours_brings_everything_both_ways_and_leaves_the_bucket_as_it_was(tmp_path: Path) -> None:
    small = replace(QUICK, s3_megabytes=9, s3_files=4)
    with s3.standing(tmp_path, "http", small) as site:
        for way in s3.WAYS:
            for kind in ("large", "small"):
                assert (
                    s3.program(site, way, kind, "ours", ours())() > 0
                )  # it counts what came, and tells what is missing
        assert {each.key.partition("/")[0] for each in site.server.s3().list(site.bucket, "")} == {
            "large",
            "small",
            "tiny",
        }


def test_a_job_starts_its_command_with_all_of_its_inputs(tmp_path: Path) -> None:
    with s3.standing(tmp_path, "http", replace(QUICK, s3_megabytes=9, s3_files=4)) as site:
        for kind in ("large", "small"):
            folder = tmp_path / f"job-{kind}"
            folder.mkdir()
            run = s3_jobs.job(replace(site, folder=folder), kind)
            assert min(run(), run()) > 0  # it counts what came, and each time anew
            assert not (folder / "results").exists()


def test_a_rival_that_brings_too_little_has_failed_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    (tmp_path / "s5cmd").write_text("#!/bin/sh\n")
    (tmp_path / "s5cmd").chmod(0o755)
    with s3.standing(tmp_path, "http", replace(QUICK, s3_megabytes=1, s3_files=2)) as site:
        before = sorted(tmp_path.iterdir())
        for way in s3.WAYS:
            with pytest.raises(ContenderFailed, match=r"it brought 0 of 524288 bytes"):
                s3.program(site, way, "small", "s5cmd", Environment(tmp_path))()
        assert sorted(tmp_path.iterdir()) == before

"""A job in an image: which keys there are, what one stands for, and what a plan makes of it."""

from __future__ import annotations

import pytest

from support.tao_command import Tao

pytestmark = pytest.mark.slow

KEY = "tao_toolkit.pyt"


def test_a_key_is_found_and_stands_for_the_same_image_in_a_plan(tao: Tao) -> None:
    assert KEY in tao("images").out
    image = tao("images", KEY).out.strip()
    planned = tao("plan", "--image", KEY, "--gpus", "0", "--", "true")
    assert planned.code == 0
    assert f"image    {image}" in planned.out
    assert f"{KEY} is {image}" in planned.err


def test_a_key_that_is_misspelt_names_the_one_that_was_meant(tao: Tao) -> None:
    ran = tao("images", f"{KEY}t")
    assert ran.code != 0
    assert f"Did you mean {KEY}?" in ran.err


def test_a_platform_that_needs_an_image_says_how_one_is_named(tao: Tao) -> None:
    nowhere = {"DOCKER_HOST": "tcp://127.0.0.1:9"}
    ran = tao("run", "--platform", "docker", "--gpus", "0", "--", "true", **nowhere)
    assert ran.code == 2
    assert "--image IMAGE" in ran.err


def test_a_local_job_says_that_it_does_not_use_its_image(tao: Tao) -> None:
    ran = tao("run", "--image", "ubuntu", "--gpus", "0", "--", "true")
    assert ran.code == 0
    assert "a local job does not use it" in ran.err

"""The owner of what is put into a container: its user, by the image's own lists of users and groups."""

from __future__ import annotations

import pytest

from tao_sdk.backends.containers.parse import owner_ids

PASSWD = "root:x:0:0::/root:/bin/sh\nann:x:1000:100::/home/ann:/bin/sh\n"
GROUP = "root:x:0:\nstaff:x:50:ann\n"
OWNERS = {
    "": (0, 0),
    "ann": (1000, 100),
    "1000": (1000, 100),
    "1001": (1001, 0),
    "ann:staff": (1000, 50),
    "ann:7": (1000, 7),
    "ann:nobody": (1000, 100),
    "1001:7": (1001, 7),
    "nobody": (0, 0),
}


@pytest.mark.parametrize("user", OWNERS)
def test_the_image_says_which_ids_a_user_has(user: str) -> None:
    assert owner_ids(user, PASSWD, GROUP) == OWNERS[user]


@pytest.mark.parametrize("id", ["x", "", "-1", "²", "9" * 5000])
def test_a_row_without_ids_is_passed_over(id: str) -> None:
    """An image's files may hold anything."""
    assert owner_ids("ann", f"ann:x:{id}:{id}:::\n{PASSWD}", GROUP) == (1000, 100)
    assert owner_ids("ann:staff", PASSWD, f"staff:x:{id}:\n{GROUP}") == (1000, 50)

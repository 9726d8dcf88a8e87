"""Which journal a store gets, by the file system it lies on. The lines are recorded from
/proc/self/mountinfo.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tao_sdk.store import Store
from tao_sdk.store.file_system import file_system_of, is_network

MOUNTINFO = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
25 24 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=24684092k
40 27 0:45 / /home rw,relatime shared:20 - nfs4 filer:/export/home rw,vers=4.2,proto=tcp,local_lock=none,addr=10.0.0.2
41 27 0:46 / /home/local rw,relatime shared:21 master:3 - xfs /dev/nvme0n1 rw
42 27 0:47 / /lustre/fs\040one rw,flock - lustre 10.0.0.1@tcp:/fsone rw,flock,lazystatfs
43 27 0:48 / /remote rw,nosuid,nodev - fuse.sshfs user@host: rw,user_id=0
44 27 0:49 / /windows rw - fuseblk /dev/sdb1 rw
45 27 0:50 / /share rw - cifs //server/share rw,vers=3.1.1
46 27 0:51 / /twice rw - nfs filer:/old rw
47 27 0:52 / /twice rw - ext4 /dev/sdc1 rw
48 27 0:53 / /container rw - overlay overlay rw,lowerdir=/a
""".strip()


@pytest.mark.parametrize(
    ("path", "file_system", "network"),
    [
        ("/var/lib", "ext4", False),
        ("/home/ann/.local/state/tao", "nfs4", True),
        ("/home", "nfs4", True),
        ("/homework", "ext4", False),
        ("/home/local/ann", "xfs", False),
        ("/lustre/fs one/ann", "lustre", True),
        ("/remote/x", "fuse.sshfs", True),
        ("/windows/x", "fuseblk", False),
        ("/share", "cifs", True),
        ("/twice/x", "ext4", False),
        ("/container/x", "overlay", False),
        ("/dev/shm/x", "tmpfs", False),
    ],
)
def test_a_path_lies_on_the_innermost_mount_above_it(
    path: str, file_system: str, network: bool
) -> None:
    assert file_system_of(path, MOUNTINFO) == file_system
    assert is_network(file_system) is network


@pytest.mark.parametrize(
    "name", "nfs nfs4 lustre gpfs cifs smb3 fuse.glusterfs beegfs ceph glusterfs afs 9p".split()
)
def test_file_systems_of_other_machines_get_the_rollback_journal(name: str) -> None:
    assert is_network(name)


def test_an_empty_table_of_mounts_means_a_local_disk() -> None:
    assert not is_network(file_system_of("/home", ""))


def test_the_journal_is_a_file_beside_the_database_where_memory_cannot_be_shared(
    path: Path, journal: bool
) -> None:
    with Store.open(path, wal=journal) as store:
        store.acquire("watch", "a", 60)
        assert path.with_name("jobs.db-shm").exists() == journal


def test_a_store_that_moved_to_another_file_system_changes_its_journal(path: Path) -> None:
    for wal in (True, False, True):
        with Store.open(path, wal=wal) as store:
            assert store.acquire("watch", "a", 60)
            assert path.with_name("jobs.db-shm").exists() == wal

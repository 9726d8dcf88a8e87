"""Archives that were made to do harm: to what lies outside of their folder, to the memory, to the
disk.
"""

from __future__ import annotations

import gzip
import io
import resource
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from support.servers.archives import FILES, file, link, special, tarred, zipped
from support.servers.trees import tree
from tao_sdk.net.failure import Failure
from tao_sdk.runner.inputs import archive, unpacking
from tao_sdk.runner.inputs.archive import unpack_archive

SOURCE = Path(archive.__file__).parents[3]
MEMORY = 200 << 20  # bytes that unpacking may take at most, Python's own included
UNPACK = """
import sys
sys.path.insert(0, sys.argv[1])
from tao_sdk.runner.inputs.archive import unpack_archive
from tao_sdk.net.failure import Failure
try:
    unpack_archive(sys.argv[2], sys.argv[3], {})
except Failure as failure:
    sys.exit(failure.code + " " + failure.why)
"""


def told(path: Path, folder: Path) -> str:
    """What is said of an archive by a process that has little memory; "" when it was unpacked."""
    limit = (resource.RLIMIT_AS, (MEMORY, MEMORY))
    argv = [sys.executable, "-ISc", UNPACK, str(SOURCE), str(path), str(folder)]
    ran = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(*limit),
    )
    assert ran.stderr or not ran.returncode
    return ran.stderr.strip()


def refusal(path: Path, folder: Path, inner: str = "") -> Failure:
    with pytest.raises(Failure) as failure:
        unpack_archive(str(path), str(folder), {}, inner)
    return failure.value


@pytest.mark.parametrize("suffix", [".tar", ".zip"])
def test_a_link_is_judged_where_it_will_lie_when_the_folder_at_the_top_is_left_out(
    refused, tmp_path, suffix
):
    files = {f"data/{name}": content for name, content in FILES.items()}
    path = tmp_path / f"data{suffix}"
    if suffix == ".tar":
        tarred(path, files, lambda tar: tar.addfile(link("data/up", "..")))
    else:
        zipped(path, files, {"data/up": ".."})
    failure = refused({"x": str(path)})
    assert failure["code"] == "archive.broken" and "data/up" in failure["why"]


def test_the_same_link_stays_where_the_folder_at_the_top_is_kept(tmp_path):
    path = tarred(
        tmp_path / "x.tar", {"data/a": b"a"}, lambda tar: tar.addfile(link("data/up", ".."))
    )
    assert (
        Path(unpack_archive(str(path), str(tmp_path / "out"), {})) / "data" / "up" / "data" / "a"
    ).read_bytes() == b"a"


@pytest.mark.parametrize("order", [1, -1])
def test_links_of_two_archives_of_a_folder_do_not_lead_out_together(tmp_path, order):
    """Each alone stays inside: what the second passes through comes with the first."""
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    first, second = ["1.tar", "2.tar"][::order]

    def down_and_up(tar):
        tar.addfile(special("s/t", tarfile.DIRTYPE))
        tar.addfile(link("s/t/d", "../.."))

    tarred(folder / first, {"1": b""}, down_and_up)
    tarred(folder / second, {"2": b""}, lambda tar: tar.addfile(link("out", "s/t/d/../secret")))
    wanted = {
        "key": "x",
        "uri": str(folder),
        "kind": "",
        "target": "",
        "options": {"extract": "parent"},
    }
    with pytest.raises(Failure) as failure:
        unpacking.unpack_local(wanted, str(folder), str(tmp_path / "part"), {})
    assert failure.value.code == "archive.broken" and "out" in failure.value.why


@pytest.mark.parametrize(
    "target",
    [
        "../x/a",
        "nowhere/../../secret",
        "a/../../x",
        "/",
        "sub/../..",
        "out",
        "./sub/deep/../../../x",
    ],
)
def test_a_link_that_leaves_the_folder_at_any_step_is_refused(tmp_path, target):
    path = tarred(
        tmp_path / "x.tar",
        {"a": b"", "sub/deep/b": b""},
        lambda tar: tar.addfile(link("out", target)),
    )
    assert refusal(path, tmp_path / "out").code == "archive.broken"


@pytest.mark.slow
def test_a_long_chain_of_links_is_refused_and_a_short_one_is_not(tmp_path):
    def links(count):
        def add(tar):
            for number in range(count):
                tar.addfile(link(f"l{number}", f"l{number + 1}" if number + 1 < count else "a"))

        return add

    unpack_archive(str(tarred(tmp_path / "1.tar", {"a": b"a"}, links(30))), str(tmp_path / "1"), {})
    assert (tmp_path / "1" / "l0").read_bytes() == b"a"
    assert (
        refusal(tarred(tmp_path / "2.tar", {"a": b"a"}, links(3000)), tmp_path / "2").code
        == "archive.broken"
    )


def header(kind: bytes, size: int, name: bytes = b"x") -> bytes:
    info = tarfile.TarInfo(name.decode())
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def packed(path: Path, *parts: tuple[bytes, int]) -> Path:
    """A .tar.gz of these bytes, each so many times."""
    with gzip.open(path, "wb", compresslevel=6) as stream:
        for part, times in parts:
            for _ in range(times):
                stream.write(part)
        stream.write(bytes(10240))
    return path


MB = bytes(1 << 20)
LARGE_HEADS = {
    "a pax header": [(header(tarfile.XHDTYPE, 250 << 20), 1), (b"a" * (1 << 20), 250)],
    "a pax header for all": [(header(tarfile.XGLTYPE, 250 << 20), 1), (b"a" * (1 << 20), 250)],
    "a long name": [(header(tarfile.GNUTYPE_LONGNAME, 250 << 20), 1), (b"a" * (1 << 20), 250)],
    "a long link": [(header(tarfile.GNUTYPE_LONGLINK, 250 << 20), 1), (b"a" * (1 << 20), 250)],
    "many long names": [(header(tarfile.GNUTYPE_LONGNAME, 512) + b"a" * 512, 400_000)],
    "holes without an end": [
        (
            header(tarfile.GNUTYPE_SPARSE, 0)[:482]
            + b"\1"
            + header(tarfile.GNUTYPE_SPARSE, 0)[483:],
            1,
        ),
        ((b"00000000001\0" * 42)[:504] + b"\1" * 8, 400_000),
    ],
}


def corrected(head: bytes) -> bytes:
    """The head with the checksum of what it holds."""
    total = sum(head[:148]) + 256 + sum(head[156:512])
    return head[:148] + b"%06o\0 " % total + head[156:]


@pytest.mark.slow
@pytest.mark.parametrize("kind", LARGE_HEADS)
def test_what_describes_an_entry_takes_little_memory(tmp_path, kind):
    (head, times), *rest = LARGE_HEADS[kind]
    path = packed(tmp_path / "x.tar.gz", (corrected(head[:512]) + head[512:], times), *rest)
    assert path.stat().st_size < 3_000_000
    assert told(path, tmp_path / "out").startswith("archive.broken What describes"), kind


@pytest.mark.slow
def test_what_is_said_of_all_entries_takes_little_memory_however_often_it_is_said(tmp_path):
    with gzip.open(tmp_path / "x.tar.gz", "wb") as stream:
        for number in range(3000):
            record = b"%d k%d=%s\n" % (
                100_000,
                number,
                b"v" * (100_000 - len(b"100000 k%d=\n" % number)),
            )
            stream.write(header(tarfile.XGLTYPE, len(record)) + record + bytes(-len(record) % 512))
            stream.write(header(tarfile.REGTYPE, 0, b"f%d" % number))
        stream.write(bytes(10240))
    assert told(tmp_path / "x.tar.gz", tmp_path / "out").startswith("archive.broken")


def test_honest_long_names_and_attributes_and_holes_are_unpacked(tmp_path):
    name = "/".join(["n" * 200] * 8)
    with tarfile.open(tmp_path / "x.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        entry = file(name, 1)
        entry.pax_headers = {"SCHILY.xattr.user.a": "v" * 60_000}
        tar.addfile(entry, io.BytesIO(b"a"))
    unpack_archive(str(tmp_path / "x.tar"), str(tmp_path / "1"), {})
    assert tree(tmp_path / "1") == {name: b"a"}
    with (tmp_path / "holes").open("wb") as stream:
        for number in range(50):
            stream.seek(number * 100_000)
            stream.write(b"x")
    for form in ("gnu", "posix"):
        argv = [
            "tar",
            "-S",
            "--format",
            form,
            "-C",
            tmp_path,
            "-cf",
            tmp_path / f"{form}.tar",
            "holes",
        ]
        subprocess.run(argv, check=True)
        unpack_archive(str(tmp_path / f"{form}.tar"), str(tmp_path / form), {})
        assert (tmp_path / form / "holes").read_bytes() == (tmp_path / "holes").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.DIRTYPE]
)
@pytest.mark.parametrize("size", [-1, -1024, 2**62, 2**80])
def test_sizes_that_nothing_can_have_are_refused(tmp_path, kind, size):
    head = header(kind, 0)
    number = (size + (1 << 96)) % (1 << 96) if size < 0 else size
    field = (b"\xff" if size < 0 else b"\x80") + number.to_bytes(12, "big")[1:]
    (tmp_path / "x.tar").write_bytes(corrected(head[:124] + field + head[136:]) + bytes(10240))
    said = told(tmp_path / "x.tar", tmp_path / "out")
    assert said.startswith(("archive.", "disk.full")) or (kind == tarfile.DIRTYPE and not said)


@pytest.mark.slow
@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("kind", ["a file", "a link"])
def test_a_zip_that_unpacks_to_much_takes_little_memory(tmp_path, compression, kind):
    """It says that it is small: how much comes of it is seen only then."""
    info = zipfile.ZipInfo("x")
    info.compress_type = compression
    if kind == "a link":
        info.external_attr = 0o120777 << 16
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", compression) as made, made.open(info, "w") as stream:
        for _ in range(250):
            stream.write(MB)
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\1\2") + 24
    content[at : at + 4] = struct.pack("<I", 1000)
    path.write_bytes(content)
    assert told(path, tmp_path / "out").startswith("archive.broken")


def test_a_zip_with_a_directory_as_large_as_a_disk_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "x.zip"
    size = 300 << 20
    with path.open("wb") as stream:
        stream.truncate(size)
        stream.seek(size)
        stream.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, size, 0, 0))
    assert "directory" in told(path, tmp_path / "out")


@pytest.mark.parametrize("where", ["the extra field", "the date"])
def test_a_zip_whose_entry_makes_no_sense_is_broken_and_no_crash(refused, tmp_path, where):
    path = tmp_path / "x.zip"
    info = zipfile.ZipInfo("a")
    with zipfile.ZipFile(path, "w") as made:
        made.writestr(info, b"a")
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\1\2")
    if where == "the extra field":  # a size of 64 bits that is not there
        content[at + 30 : at + 32] = struct.pack("<H", 4)
        content[at + 24 : at + 28] = b"\xff" * 4
        content[at + 47 : at + 47] = struct.pack("<HH", 1, 0)
        end = content.rindex(b"PK\5\6")
        content[end + 12 : end + 16] = struct.pack("<I", end - at)
        path.write_bytes(content)
        assert refused({"x": str(path)})["code"] == "archive.broken"
    else:
        content[at + 12 : at + 16] = b"\xff" * 4
        path.write_bytes(content)
        told(path, tmp_path / "out")


def test_names_that_lie_too_deep_are_refused(tmp_path):
    path = zipped(tmp_path / "x.zip", {"a/" * 1500 + "x": b""})
    assert "folders" in refusal(path, tmp_path / "out").why


@pytest.mark.parametrize("many", ["folders", "links"])
def test_folders_and_links_without_number_are_refused(tmp_path, monkeypatch, many):
    monkeypatch.setattr(archive, "MOST_NOTED", 50)

    def add(tar):
        for number in range(60):
            tar.addfile(
                special(f"d{number}", tarfile.DIRTYPE)
                if many == "folders"
                else link(f"l{number}", "a")
            )

    failure = refusal(tarred(tmp_path / "x.tar", {"a": b""}, add), tmp_path / "out")
    assert failure.code == "archive.limit" and many in failure.what


@pytest.mark.slow
def test_what_is_behind_the_end_of_a_tar_has_a_limit_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "ALLOWED", 1 << 20)
    path = packed(tmp_path / "x.tar.gz", (header(tarfile.REGTYPE, 0), 1), (MB, 300))
    assert refusal(path, tmp_path / "out").code == "archive.limit"


def test_nobody_else_can_write_to_what_comes_of_an_archive_and_nothing_runs_as_its_owner(tmp_path):
    def add(tar):
        tar.addfile(file("run", mode=0o6777))
        folder = special("open", tarfile.DIRTYPE)
        folder.mode = 0o3777
        tar.addfile(folder)

    top = Path(unpack_archive(str(tarred(tmp_path / "x.tar", {}, add)), str(tmp_path / "out"), {}))
    assert [(top / name).stat().st_mode & 0o7777 for name in ("run", "open")] == [0o755, 0o755]


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_what_is_no_file_is_refused(tmp_path, kind):
    path = tarred(tmp_path / "x.tar", {"a": b""}, lambda tar: tar.addfile(special("odd", kind)))
    assert "odd" in refusal(path, tmp_path / "out").why

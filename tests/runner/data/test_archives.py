"""Archives among the inputs: unpacked whole beside a mark of what they are made of, or an error
before the command.
"""

from __future__ import annotations

import io
import os
import stat
import tarfile
import zipfile
import zlib
from itertools import islice
from pathlib import Path

import pytest

from support.servers.archives import FILES, MAKERS, file, link, special, tarred, zipped
from support.servers.trees import tree
from tao_sdk.net.failure import Failure
from tao_sdk.runner.inputs import unpacking
from tao_sdk.script_runner import build_entrypoint

SUFFIXES = sorted(MAKERS)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_fetched_archive_is_unpacked_into_a_folder_of_its_name(paths, web, tmp_path, suffix):
    web.files[f"/images{suffix}"] = MAKERS[suffix](tmp_path / f"x{suffix}", FILES).read_bytes()
    found = Path(paths({"x": f"{web.url}/images{suffix}"})["x"])
    assert found.name == "images" and tree(found) == FILES
    assert sorted(each.name for each in found.parent.iterdir()) == [
        ".images.tao-part",
        "images",
    ]  # and no archive


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_archive_of_this_machine_is_unpacked_elsewhere_and_left_as_it_is(
    paths, tmp_path, suffix
):
    archive = MAKERS[suffix](tmp_path / f"images{suffix}", FILES)
    found = Path(paths({"x": f"lustre://{archive}"}, {"x": {"type": "file"}})["x"])
    assert tree(found) == FILES and not found.is_relative_to(tmp_path / "images")
    assert not (tmp_path / "images").exists() and archive.exists()


def test_the_only_folder_at_the_top_that_has_the_archives_name_is_left_out(paths, tmp_path):
    inside = {f"images/{name}": content for name, content in FILES.items()}
    found = paths(
        {
            "a": str(tarred(tmp_path / "images.tar.gz", inside)),
            "b": str(tarred(tmp_path / "other.tgz", inside)),
            "c": str(tarred(tmp_path / "images.tar", {**inside, "more": b""})),
        }
    )
    assert tree(found["a"]) == FILES
    assert tree(found["b"]) == inside
    assert tree(found["c"]) == {**inside, "more": b""}


def test_extract_false_keeps_it_packed(paths, web, tmp_path):
    archive = tarred(tmp_path / "x.tar.gz", FILES)
    web.files["/x.tar.gz"] = archive.read_bytes()
    about = {"here": {"extract": False}, "there": {"extract": False}}
    found = paths({"here": str(archive), "there": f"{web.url}/x.tar.gz"}, about)
    assert found["here"] == str(archive)
    assert Path(found["there"]).read_bytes() == archive.read_bytes()


def test_extract_to_parent_leaves_the_folders_of_the_archive_as_they_are(paths, tmp_path):
    inside = {f"scans/{name}": content for name, content in FILES.items()}
    archive = tarred(tmp_path / "scans.tar.gz", inside)
    assert tree(paths({"x": str(archive)}, {"x": {"extract_to_parent": True}})["x"]) == inside


def test_archives_in_a_folder_stay_packed_unless_they_are_wanted_unpacked(paths, hub, tmp_path):
    one, two = tarred(tmp_path / "1.tar", {"1": b"1"}), zipped(tmp_path / "2.zip", {"2/2": b"2"})
    files = {"shards/1.tar": one.read_bytes(), "2.zip": two.read_bytes(), "list.json": b"[]"}
    hub.add("org/data", files, kind="datasets")
    uri = "hf_dataset://org/data"
    found = paths(
        {"a": uri, "b": uri, "c": uri},
        {"a": {}, "b": {"extract": True}, "c": {"extract_to_parent": True}},
    )
    assert tree(found["a"]) == files
    assert tree(found["b"]) == {"shards/1/1": b"1", "2/2": b"2", "list.json": b"[]"}
    assert tree(found["c"]) == {"shards/1": b"1", "2/2": b"2", "list.json": b"[]"}


def test_a_local_folder_whose_archives_are_wanted_unpacked_is_left_as_it_is(paths, tmp_path):
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    tarred(folder / "sub" / "1.tar", {"1": b"1"})
    (folder / "list.json").write_text("[]")
    before = tree(folder)
    found = paths({"x": str(folder)}, {"x": {"extract": True}})["x"]
    assert tree(found) == {"sub/1/1": b"1", "list.json": b"[]"}
    assert tree(folder) == before


def test_a_local_folder_whose_archives_are_wanted_unpacked_may_have_links_to_folders(
    paths, tmp_path
):
    folder, far = tmp_path / "data", tmp_path / "far"
    (folder / "sub").mkdir(parents=True)
    (far / "deep").mkdir(parents=True)
    tarred(far / "deep" / "1.tar", {"1": b"1"})
    (far / "x.jpg").write_bytes(b"x")
    for each in (folder / "images", folder / "sub" / "again"):
        each.symlink_to(far)
    (folder / "sub" / "above").symlink_to("..")  # it ends
    (far / "round").symlink_to(folder)
    found = Path(paths({"x": str(folder)}, {"x": {"extract": True}})["x"])
    for name in ("images", "sub/again"):
        assert (found / name / "x.jpg").read_bytes() == b"x"
        assert (found / name / "deep" / "1" / "1").read_bytes() == b"1"
    assert (found / "sub" / "above").is_dir()
    assert (far / "deep" / "1.tar").is_file()


def test_folders_without_anything_are_there_when_the_archives_of_a_local_folder_are_unpacked(
    paths, tmp_path
):
    folder = tmp_path / "data"
    for name in ("sub/empty", "below"):
        (folder / name).mkdir(parents=True)
    (folder / "link").symlink_to("sub/empty")
    tarred(
        folder / "1.tar", {"1": b"1"}, lambda tar: tar.addfile(special("none/", tarfile.DIRTYPE))
    )
    found = Path(paths({"x": str(folder)}, {"x": {"extract": True}})["x"])
    assert {str(each.relative_to(found)) for each in found.rglob("*") if each.is_dir()} == {
        "sub", "sub/empty", "below", "link", "1", "1/none",
    }  # fmt: skip
    assert list((folder / "sub" / "empty").iterdir()) == []


def test_a_folder_inside_a_local_folder_that_cannot_be_read_is_an_error_and_not_left_out(
    jobs, tmp_path, request
):
    secret = tmp_path / "data" / "secret"
    secret.mkdir(parents=True)
    tarred(tmp_path / "data" / "1.tar", {"1": b"1"})
    secret.chmod(0)
    request.addfinalizer(lambda: secret.chmod(0o700))
    specs, inputs = {"x": str(tmp_path / "data")}, {"x": {"extract": True}}
    text = build_entrypoint(command="cat {config_path}", specs=specs, inputs=inputs)["command"]
    without_rights = (
        ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
    )
    ran = jobs.run_text(text, shell=(*without_rights, "bash", "-c"))
    assert (ran.code, ran.failure["code"]) == (125, "input.unreadable"), ran.raw
    assert str(secret) in ran.failure["what"]


@pytest.mark.parametrize("single", [True, False])
def test_a_local_archive_that_is_written_anew_while_it_is_unpacked_is_not_used(
    tmp_path, monkeypatch, single
):
    (tmp_path / "data").mkdir()
    path = tarred(tmp_path / "data" / "1.tar", {"1": b"1"})
    wanted = {"key": "x", "uri": str(path), "kind": "", "target": "", "options": {"extract": "yes"}}

    def unpack(*arguments, real=unpacking.archive.unpack_archive):
        made = real(*arguments)
        os.utime(path, (1, 1))
        return made

    monkeypatch.setattr(unpacking.archive, "unpack_archive", unpack)
    with pytest.raises(Failure) as failure:
        unpacking.unpack_local(
            wanted, str(path if single else path.parent), str(tmp_path / "part"), {}
        )
    assert failure.value.code == "input.changing"


def test_a_link_to_everything_in_a_local_folder_is_not_followed(paths, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    tarred(folder / "1.tar", {"1": b"1"})
    (folder / "all").symlink_to("/")
    assert len(list(islice(unpacking.files_below(str(folder)), 100))) == 2
    found = Path(paths({"x": str(folder)}, {"x": {"extract": True}})["x"])
    assert (found / "1" / "1").read_bytes() == b"1" and (found / "all").is_symlink()


def test_a_passthrough_archive_stays_packed_unless_told_otherwise(jobs, web, tmp_path):
    archive = tarred(tmp_path / "x.tar.gz", {"a": b"inside"})
    web.files["/x.tar.gz"] = archive.read_bytes()
    inputs = {
        f"{tmp_path}/d/y.tar.gz": f"{web.url}/x.tar.gz",
        f"{tmp_path}/d/images": {"uri": f"{web.url}/x.tar.gz", "extract": True},
    }
    ran = jobs.run(
        f"cmp {archive} {tmp_path}/d/y.tar.gz && cat {tmp_path}/d/images/a", inputs=inputs
    )
    assert (ran.code, ran.out) == (0, b"inside"), ran.raw


def test_links_and_modes_and_times_inside_are_kept(paths, tmp_path):
    def more(tar):
        tar.addfile(file("run.sh", mode=0o4755))
        tar.addfile(special("locked", tarfile.DIRTYPE))
        tar.addfile(file("locked/x", 1), io.BytesIO(b"x"))
        tar.addfile(link("sub/up", "../a.txt"))
        tar.addfile(link("folder", "sub"))
        tar.addfile(link("nowhere", "sub/none"))
        tar.addfile(special("twin", tarfile.LNKTYPE, "a.txt"))

    top = Path(paths({"x": str(tarred(tmp_path / "x.tar.gz", FILES, more))})["x"])
    assert stat.S_IMODE((top / "run.sh").stat().st_mode) == 0o755  # no setuid
    assert (top / "a.txt").stat().st_mtime == 1_600_000_000
    assert (top / "sub" / "up").read_bytes() == b"a" and (top / "folder" / "b.bin").exists()
    assert (top / "nowhere").is_symlink() and (top / "twin").samefile(top / "a.txt")
    assert (top / "locked" / "x").read_bytes() == b"x"


def test_of_two_entries_of_one_name_the_later_counts(paths, tmp_path):
    archive = tarred(
        tmp_path / "x.tar", {"a": b"1"}, lambda tar: tar.addfile(file("a", 1), io.BytesIO(b"2"))
    )
    assert tree(paths({"x": str(archive)})["x"]) == {"a": b"2"}


def outside(name):
    return lambda tar: tar.addfile(file(name, 4), io.BytesIO(b"evil"))


def through(tar):
    tar.addfile(link("up", "sub"))
    tar.addfile(file("up/evil", 4), io.BytesIO(b"evil"))


def chain(tar):
    """Each link alone stays inside when it is only read; followed, the second leads out."""
    tar.addfile(special("s/t", tarfile.DIRTYPE))
    tar.addfile(link("s/t/d", "../.."))
    tar.addfile(link("out", "s/t/d/../secret"))


ODD = {
    "a parent": outside("../evil"),
    "a parent in the middle": outside("sub/../../evil"),
    "an absolute name": outside("/tmp/evil"),
    "a link out": lambda tar: tar.addfile(link("out", "../secret")),
    "an absolute link": lambda tar: tar.addfile(link("out", "/etc/passwd")),
    "a file behind a link": through,
    "a chain of links": chain,
    "a hard link out": lambda tar: tar.addfile(special("out", tarfile.LNKTYPE, "../secret")),
    "a hard link to nothing": lambda tar: tar.addfile(special("out", tarfile.LNKTYPE, "nothing")),
    "a device": lambda tar: tar.addfile(special("null", tarfile.CHRTYPE)),
    "a pipe": lambda tar: tar.addfile(special("pipe", tarfile.FIFOTYPE)),
    "a file where a folder is": outside("sub"),
    "a file below a file": outside("a.txt/evil"),
}


@pytest.mark.parametrize("odd", ODD)
def test_nothing_of_an_archive_lies_outside_of_its_folder(refused, tmp_path, odd):
    (tmp_path / "secret").write_text("secret")
    before = set(tree(tmp_path))
    told = refused({"x": str(tarred(tmp_path / "x.tar.gz", FILES, ODD[odd]))})
    assert told["code"] == "archive.broken" and "x.tar.gz" in told["what"] and told["why"]
    left = {
        path for path in set(tree(tmp_path)) - before if "evil" in path and ".tao-part/" not in path
    }
    assert not left and not Path("/tmp/evil").exists()


def test_nothing_of_a_zip_lies_outside_of_its_folder(refused, tmp_path):
    assert (
        refused({"x": str(zipped(tmp_path / "1.zip", {"../evil": b"evil"}))})["code"]
        == "archive.broken"
    )
    assert (
        refused({"x": str(zipped(tmp_path / "2.zip", FILES, {"out": "../../secret"}))})["code"]
        == "archive.broken"
    )
    assert not (tmp_path / "evil").exists()


def damaged(path: Path, kind: str) -> Path:
    content = path.read_bytes()
    cut = {"half": content[: len(content) // 2], "a byte": content[:-700], "nothing": b""}
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    path.write_bytes({**cut, "flipped": bytes(flipped), "garbage": os.urandom(5000)}[kind])
    return path


@pytest.mark.parametrize("kind", ["half", "a byte", "nothing", "flipped", "garbage"])
@pytest.mark.parametrize("suffix", [".tar.gz", ".zip"])
def test_an_archive_that_is_not_whole_ends_the_job_before_the_command(
    refused, tmp_path, suffix, kind
):
    archive = damaged(
        MAKERS[suffix](tmp_path / f"x{suffix}", {"a": os.urandom(9000), "b": os.urandom(9000)}),
        kind,
    )
    assert refused({"x": str(archive)})["code"] == "archive.broken"


TEXT = b"".join(b"%d line %d\n" % (number, number**2) for number in range(30_000))


def damaged_tar_gz(path: Path) -> Path:
    """A block of a kind that does not exist: where one begins, its first bits say of which kind it
    is.
    """
    content = tarred(path.with_suffix(".tar"), {"x": TEXT}).read_bytes()
    packer = zlib.compressobj(wbits=31)
    whole = packer.compress(content[:300_000]) + packer.flush(zlib.Z_FULL_FLUSH)
    path.write_bytes(whole + b"\xff" * 400 + packer.compress(content[300_000:]) + packer.flush())
    return path


def damaged_zip(path: Path, compression: int) -> Path:
    """Of text: bytes without an order are stored as they are, and nothing breaks inside the
    compression then.
    """
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("x", TEXT)
    content = bytearray(path.read_bytes())
    middle = slice(len(content) // 2, len(content) // 2 + 400)
    content[middle] = bytes(each ^ 0xFF for each in content[middle])
    path.write_bytes(content)
    return path


DAMAGED = {
    ".tar.gz": damaged_tar_gz,
    ".deflated.zip": lambda path: damaged_zip(path, zipfile.ZIP_DEFLATED),
    ".lzma.zip": lambda path: damaged_zip(path, zipfile.ZIP_LZMA),
}


@pytest.mark.parametrize("suffix", sorted(DAMAGED))
def test_an_archive_that_is_damaged_inside_its_compression_ends_the_job_as_such(
    refused, tmp_path, suffix
):
    assert refused({"x": str(DAMAGED[suffix](tmp_path / f"x{suffix}"))})["code"] == "archive.broken"


def test_a_zip_whose_directory_leads_to_nowhere_ends_the_job_as_broken(refused, tmp_path):
    archive = zipped(tmp_path / "x.zip", FILES)
    content = bytearray(archive.read_bytes())
    end = content.rindex(b"PK\5\6")
    content[end + 16 : end + 20] = (
        b"\xff\xff\0\0"  # where the directory begins, as they who wrote it thought
    )
    archive.write_bytes(content)
    assert refused({"x": str(archive)})["code"] == "archive.broken"


def test_an_entry_with_a_time_that_no_file_can_have_is_unpacked_without_it(paths, tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        entry = tarfile.TarInfo("a.txt")
        entry.size, entry.pax_headers = 1, {"mtime": "1e30"}
        tar.addfile(entry, io.BytesIO(b"a"))
    assert (Path(paths({"x": str(tmp_path / "x.tar")})["x"]) / "a.txt").read_bytes() == b"a"


@pytest.mark.parametrize("cut", [512, 1024, 5000, 9728, 9729, 20_000])
def test_a_tar_that_is_cut_even_between_two_entries_is_not_whole(refused, tmp_path, cut):
    archive = tarred(tmp_path / "x.tar", {"a": os.urandom(9216 - 512), "b": os.urandom(20_000)})
    archive.write_bytes(archive.read_bytes()[:cut])
    assert refused({"x": str(archive)})["code"] == "archive.broken"


def test_a_tar_that_is_damaged_between_two_entries_is_not_whole(refused, tmp_path):
    archive = tarred(tmp_path / "x.tar", {"a": b"a" * 512, "b": b"b" * 512, "c": b"c"})
    content = bytearray(archive.read_bytes())
    content[1024 : 1024 + 200] = b"\xff" * 200  # the head of b
    archive.write_bytes(content)
    assert refused({"x": str(archive)})["code"] == "archive.broken"


def test_a_bomb_is_refused_before_it_fills_the_disk(jobs, refused, tmp_path):
    archive = zipped(
        tmp_path / "bomb.zip", {f"{number}": b"\0" * 40_000_000 for number in range(12)}
    )
    told = refused({"x": str(archive)})
    assert told["code"] == "archive.limit" and "TAO_UNPACK_BYTES" in told["next"]
    assert not list(jobs.results.rglob("unpacked/*"))


def test_limits_by_size_and_by_count_are_the_users_to_set(jobs, refused, paths, tmp_path):
    archive = str(tarred(tmp_path / "x.tar", {str(number): b"0123456789" for number in range(20)}))
    assert "entries" in refused({"x": archive}, env={"TAO_UNPACK_FILES": "19"})["what"]
    assert "bytes" in refused({"x": archive}, env={"TAO_UNPACK_BYTES": "199"})["what"]
    assert (
        len(
            tree(
                paths({"x": archive}, env={"TAO_UNPACK_FILES": "20", "TAO_UNPACK_BYTES": "200"})[
                    "x"
                ]
            )
        )
        == 20
    )


def test_an_archive_of_a_kind_that_cannot_be_read_is_told(refused, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a", b"a")
    content = bytearray((tmp_path / "x.zip").read_bytes())
    content[6] |= 1  # encrypted, in both heads
    content[content.rindex(b"PK\1\2") + 8] |= 1
    (tmp_path / "x.zip").write_bytes(content)
    told = refused({"x": str(tmp_path / "x.zip")})
    assert told["code"] == "archive.broken" and "encrypted" in told["why"]


@pytest.mark.parametrize("where", ["here", "there"])
def test_a_changed_archive_is_unpacked_anew_and_an_unchanged_one_is_not(
    paths, web, tmp_path, where
):
    """What a fetched one was made of is told by its ETag."""

    def unpacked():
        web.files["/x.tar"] = archive.read_bytes()
        return Path(paths({"x": str(archive) if where == "here" else f"{web.url}/x.tar"})["x"])

    archive = tarred(tmp_path / "x.tar", {"a": b"old", "gone": b""})
    made = unpacked().stat().st_ino
    assert unpacked().stat().st_ino == made
    tarred(tmp_path / "x.tar", {"a": b"new"})
    assert tree(unpacked()) == {"a": b"new"}


def test_unpacking_that_was_cut_off_starts_anew_and_never_shows_half(
    jobs, paths, tmp_path, eventually
):
    files = {f"{number}/x.bin": os.urandom(20_000) for number in range(2000)}
    archive = tarred(tmp_path / "x.tar", files)
    job = jobs.start("echo never", specs={"x": str(archive)}, inputs=["x"])
    folder = jobs.results / ".tao" / "inputs" / "x"
    eventually(lambda: list(folder.glob(".x.tao-part/part/unpacked/*")))
    job.process.kill()
    job.process.communicate()
    assert not (folder / "x").exists()
    assert tree(paths({"x": str(archive)})["x"]) == files


def test_an_archive_that_the_disk_cannot_hold_is_told_with_where(jobs, refused, small_disk):
    archive = tarred(
        jobs.folder / "x.tar", {str(number): os.urandom(1_000_000) for number in range(120)}
    )
    told = refused({"x": str(archive)}, {"x": {"container_path": f"{small_disk}/x"}})
    assert told["code"] == "disk.full" and str(small_disk) in told["why"] + told["what"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("train set", "train_set"),
        ("train/" + "x" * 101, "val/" + "x" * 101),
        ("模" * 90 + "a", "模" * 90 + "b"),
    ],
    ids=["replaced", "cut", "cut by bytes"],
)
def test_inputs_whose_keys_look_alike_as_names_of_folders_do_not_get_each_others_data(
    paths, tmp_path, one, other
):
    for number in "01":
        (tmp_path / number).mkdir()
        tarred(tmp_path / number / "x.tar", {"of": number.encode()})
    found = paths({one: f"{tmp_path}/0/x.tar", other: f"{tmp_path}/1/x.tar"})
    assert [tree(found[key]) for key in (one, other)] == [{"of": b"0"}, {"of": b"1"}]


def test_the_folder_of_an_input_is_called_as_its_key(jobs, paths, tmp_path):
    archive = str(tarred(tmp_path / "x.tar", {"a": b"a"}))
    assert (
        paths({"train_data-2": archive})["train_data-2"]
        == f"{jobs.results}/.tao/inputs/train_data-2/x"
    )


def test_entries_whose_names_begin_alike_are_told_apart(paths, tmp_path):
    """What lies beside them, hidden, has no room for the whole of a long name."""
    name = "x" * 230
    specs = {key: str(tarred(tmp_path / f"{key}.tar", {"of": key.encode()})) for key in "ab"}
    about = {key: {"container_path": f"{tmp_path}/in/{name}{key}"} for key in specs}
    found = paths(specs, about)
    made = [Path(each).stat().st_ino for each in found.values()]
    assert [tree(each) for each in found.values()] == [{"of": b"a"}, {"of": b"b"}]
    assert [
        Path(each).stat().st_ino for each in paths(specs, about).values()
    ] == made  # neither is made anew

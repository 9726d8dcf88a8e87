"""What an attempt before or another rank has sent is not sent again, and nothing else is taken for
it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.bucket_jobs import finish, look, opened, run, write
from support.servers import s3_here
from tao_sdk.runner.outputs.sending import Item


def test_what_is_there_whole_is_not_sent_again(jobs, line):
    command = (
        "for i in 1 2 3; do [ -e $i.pth ] || head -c 12000000 /dev/urandom > $i.pth; done; echo "
        "$TAO_ATTEMPT > new"
    )
    run(jobs, line, command)
    line.link.faults(match=".pth", methods="PUT")
    before = {
        each.key: each.modified
        for each in line.server.s3().list(line.name, "")
        if each.key.endswith(".pth")
    }
    (jobs.results / ".tao" / "job.log").unlink()
    for manifest in (True, False):
        if not manifest:  # the runner was killed before it could write one
            line.server.s3().ask("DELETE", line.name, "results/job-1/.tao/manifest.json")
        assert run(jobs, line, command, {"TAO_ATTEMPT": "2"}).code == 0
        assert before == {
            each.key: each.modified
            for each in line.server.s3().list(line.name, "")
            if each.key.endswith(".pth")
        }
    assert {f"results_dir/{n}.pth" for n in (1, 2, 3)} <= set(line.listed())


def look_without_a_reply(line, bucket, name):
    """The store takes the file and cannot say so: as far as the job knows, it was refused."""
    line.link.faults(busy=1, methods="PUT", match=name)
    look(bucket)
    assert list(bucket.refused) == [name]
    line.server.s3().put(
        line.name, f"results/job-1/{name}", Path(bucket.results.folder, name).read_bytes()
    )
    line.link.faults()


@pytest.mark.parametrize("replies", [True, False])
def test_a_file_that_is_again_as_an_earlier_attempt_left_it_is_sent_again(jobs, line, replies):
    first = opened(jobs, line)
    write(first, "latest.txt", "200")
    finish(first)
    second = opened(jobs, line, attempt=2, url=line.link.url)
    write(second, "latest.txt", "100")
    look(second) if replies else look_without_a_reply(line, second, "latest.txt")
    assert line.read("results/job-1/latest.txt") == b"100"
    write(second, "latest.txt", "200")
    finish(second)
    assert line.read("results/job-1/latest.txt") == b"200"
    assert (line.manifest()["whole"], second.failure) == (True, None)


def test_a_file_that_gets_its_earlier_name_and_time_back_is_sent_again(jobs, line):
    """Another stood in its place for a while."""
    bucket = opened(jobs, line, url=line.link.url)
    kept, aside = Path(bucket.results.folder, "kept.txt"), jobs.folder / "aside"
    write(bucket, "kept.txt", "200")
    look(bucket)
    kept.rename(aside)
    write(bucket, "kept.txt", "100")
    look_without_a_reply(line, bucket, "kept.txt")
    aside.rename(kept)
    finish(bucket)
    assert line.read("results/job-1/kept.txt") == b"200"


@pytest.mark.parametrize("once", ["not there", "not readable"])
def test_a_file_that_once_could_not_be_read_is_missed_when_the_store_refuses_it_at_the_end(
    jobs, line, once
):
    bucket = opened(jobs, line, url=line.link.url)
    path = Path(bucket.results.folder, "best.pth")
    if once == "not readable":
        path.mkdir()
    bucket.send_item(Item("best.pth", str(path), (3, 1.0), urgent=False))
    assert "best.pth" in (bucket.gone if once == "not there" else bucket.unread)
    if once == "not readable":
        path.rmdir()
    write(bucket, "best.pth", "200")
    line.link.faults(busy=1, methods="PUT", match="best.pth")
    finish(bucket)
    assert bucket.failure and bucket.failure.what.startswith("1 of 1 files")
    assert line.manifest()["whole"] is False


def test_why_results_were_lost_is_told_of_those_and_not_of_one_that_is_no_longer_there(jobs, line):
    bucket = opened(jobs, line, url=line.link.url)
    write(bucket, "temporary.txt", "1")
    line.link.faults(busy=1, methods="PUT", match="temporary.txt")
    look(bucket)
    assert list(bucket.refused) == ["temporary.txt"]
    Path(bucket.results.folder, "temporary.txt").unlink()
    write(bucket, "best.pth", "200")
    line.link.faults(expired=s3_here.ACCESS, methods="PUT", match="best.pth")
    finish(bucket)
    assert bucket.failure and "expired" in bucket.failure.why


def test_other_ranks_send_only_what_differs_to_a_folder_of_their_own(jobs, minio):
    env = {"TAO_LOCAL_ROOT": str(jobs.folder / "zero")}
    same = "echo same > same.pth; touch -d '1 hour ago' same.pth"
    run(jobs, minio, f"{same}; echo zero > differs", env)
    manifest = minio.manifest()
    env = {"TAO_LOCAL_ROOT": str(jobs.folder / "two"), "TAO_RANK": "2", "TAO_SYNC_SECONDS": "1"}
    assert (
        run(jobs, minio, f"{same}; echo two > differs; echo own > own; echo heard", env).code == 0
    )
    below = "results/job-1/results_dir"
    assert {key for key in minio.keys if "rank" in key} == {
        f"{below}/.rank-2/differs", f"{below}/.rank-2/own",
        "results/job-1/.rank-2/spec.json", "results/job-1/.tao/job.rank-2.log",
    }  # fmt: skip
    assert minio.read(f"{below}/differs") == b"zero\n"
    assert minio.manifest() == manifest


def of_rank_1(store):
    return {
        key.partition(".rank-1/")[2]: store.read(key) for key in store.keys if ".rank-1/" in key
    }


def test_another_rank_does_not_send_while_it_runs_what_rank_0_has_sent(jobs, minio):
    """The other rank looks first each time, and still gives rank 0 the time to send
    what both have.
    """
    zero, one = opened(jobs, minio), opened(jobs, minio, rank=1)
    write(zero, "epoch_1.pth", "same")
    look(one, zero, times=4)
    write(zero, "epoch_2.pth", "same as well")
    look(one, zero, times=4)
    assert set(minio.listed()) == {"epoch_1.pth", "epoch_2.pth"}
    finish(zero)
    finish(one)
    assert of_rank_1(minio) == {}


def test_what_differs_is_sent_although_rank_0_had_the_same_once(jobs, minio):
    """Also what rank 0 has of an earlier attempt: it writes it anew, and the other
    rank does not.
    """
    zero, one = opened(jobs, minio), opened(jobs, minio, rank=1, folder="one")
    for each in (zero, one):
        write(each, "early.pth", "same")
        write(each, "late.pth", "same")
    look(zero, one, times=4)
    assert of_rank_1(minio) == {}
    write(zero, "early.pth", "another")
    look(zero, one, times=3)
    assert of_rank_1(minio) == {"early.pth": b"same"}
    write(zero, "late.pth", "another")
    finish(zero)
    finish(one)
    assert of_rank_1(minio) == {"early.pth": b"same", "late.pth": b"same"}


@pytest.mark.parametrize("attempt", [1, 2])
def test_what_rank_0_replaced_just_before_it_was_killed_is_not_taken_for_what_its_manifest_says(
    jobs, minio, attempt
):
    """Each file goes before the manifest that lists it; a rank that believed the last one kept its
    own nowhere.
    """
    zero, one = opened(jobs, minio), opened(jobs, minio, rank=1, folder="one", attempt=attempt)
    for each in (zero, one):
        write(each, "last.pth", "same")
        write(each, "first.pth", "same")
    look(zero, one, times=4)
    assert of_rank_1(minio) == {}
    zero.remote.write_object("last.pth", b"another")
    zero.sending.close()
    one.results.interval = 0.1  # how long it waits for rank 0
    finish(one)
    assert (of_rank_1(minio), one.failure) == ({"last.pth": b"same"}, None)


def test_what_differs_is_sent_although_size_and_time_are_the_same(jobs, minio):
    zero, one = opened(jobs, minio), opened(jobs, minio, rank=1, folder="one")
    for each, text in ((zero, "0"), (one, "1")):
        write(each, "metrics.npz", text)
        os.utime(Path(each.results.folder, "metrics.npz"), (1_000_000_000, 1_000_000_000))
    finish(zero)
    finish(one)
    assert of_rank_1(minio) == {"metrics.npz": b"1"}


def test_what_a_rank_has_sent_once_is_renewed_when_it_becomes_what_rank_0_has(jobs, minio):
    zero, one = opened(jobs, minio), opened(jobs, minio, rank=1, folder="one")
    write(zero, "best.pth", "final")
    write(one, "best.pth", "not yet")
    look(zero, one, times=4)
    write(one, "best.pth", "final")
    finish(zero)
    finish(one)
    assert of_rank_1(minio) == {"best.pth": b"final"}


def test_a_rank_that_cannot_hear_of_rank_0_sends_its_results(jobs, line):
    one = opened(jobs, line, rank=1, url=line.link.url)
    line.link.faults(busy=1, methods="GET", match="manifest.json")
    write(one, "best.pth", "200")
    look(one, times=4)
    assert of_rank_1(line) == {"best.pth": b"200"}
    write(one, "last.pth", "300")
    one.results.interval = 1.0  # how long it waits for rank 0
    finish(one)
    assert (of_rank_1(line)["last.pth"], one.failure) == (b"300", None)


def test_a_file_that_is_written_anew_just_before_the_command_fails_is_not_vouched_for(jobs, minio):
    bucket = opened(jobs, minio)
    write(bucket, "latest.pth", "whole")
    look(bucket, times=2)
    assert minio.listed()["latest.pth"]["sha256"]
    write(bucket, "latest.pth", "ha")
    finish(bucket, exit_code=1)
    assert minio.read("results/job-1/latest.pth") == b"ha"
    assert minio.listed()["latest.pth"]["sha256"] is None

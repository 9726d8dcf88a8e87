"""Inputs at plain web addresses, and what every fetched input has in common."""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.servers.web_server import Reply, etag, ranged
from support.waiting import LIMIT_SECONDS
from tao_sdk.net.source import Source
from tao_sdk.runner.document import Input
from tao_sdk.runner.events import EventFilter
from tao_sdk.runner.inputs import staging
from tao_sdk.runner.report import Report

BIG = os.urandom(20_000_000)


def content(path):
    return Path(path).read_bytes()


def test_a_file_is_fetched_in_ranges_side_by_side(paths, web):
    """The first range is answered when the next has been asked for."""
    web.files["/data/big.bin"] = BIG
    two, order, met = threading.Barrier(2, timeout=LIMIT_SECONDS), itertools.count(), []

    def meet(request):
        if request.headers["range"] != "bytes=0-0" and next(order) < 2:
            met.append(two.wait())

    web.odd["/data/big.bin"] = meet
    found = paths({"x": f"{web.url}/data/big.bin"})["x"]
    assert content(found) == BIG and Path(found).name == "big.bin"
    assert sorted(met) == [0, 1]


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_small_and_empty_files(paths, web, size):
    web.files["/x"] = BIG[:size]
    assert content(paths({"x": f"{web.url}/x"})["x"]) == BIG[:size]


@pytest.mark.parametrize(
    ("written", "asked", "name"),
    [
        ("a b.bin", "a%20b.bin", "a b.bin"),
        ("ä.bin", "%C3%A4.bin", "ä.bin"),
        ("a%20b.bin", "a%20b.bin", "a b.bin"),
    ],
)
def test_an_address_may_have_characters_that_are_not_sent_as_they_are(
    paths, web, written, asked, name
):
    web.files[f"/{asked}"] = b"x"
    found = paths({"x": f"{web.url}/{written}"})["x"]
    assert (content(found), Path(found).name) == (b"x", name)


def test_a_server_without_ranges_and_without_etags(paths, web):
    web.files["/x"] = BIG
    web.ranges = web.etags = False
    assert content(paths({"x": f"{web.url}/x"})["x"]) == BIG


def test_a_body_without_a_length_is_taken_to_its_end(paths, web):
    def chunked(request):
        body = (
            b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (BIG[:1000], BIG[1000:5000]))
            + b"0\r\n\r\n"
        )
        return Reply(200, body, {"Transfer-Encoding": "chunked", "Content-Length": ""})

    web.odd["/x"] = chunked
    assert content(paths({"x": f"{web.url}/x"})["x"]) == BIG[:5000]


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ('attachment; filename="weights v2.pth"', "weights v2.pth"),
        ("attachment; filename=a.bin; filename*=UTF-8''%C3%A9.bin", "é.bin"),
        ('attachment; filename="../../etc/passwd"', "passwd"),
        ("inline", "download"),
        ('attachment; filename=".."', "download"),
    ],
)
def test_the_server_may_say_what_the_file_is_called_but_not_where_it_goes(paths, web, header, name):
    web.files["/download"] = b"x"
    web.headers["/download"] = {"Content-Disposition": header}
    assert Path(paths({"x": f"{web.url}/download?id=7"})["x"]).name == name


def test_a_redirect_to_another_host_does_not_take_the_login_along(paths, web, hub):
    web.files["/x"] = b"x"
    hub.store.files["there"] = BIG
    hub.store.links["s=1"] = 100
    web.odd["/moved"] = lambda _: Reply(302, b"", {"Location": f"{hub.store.url}/there?s=1"})
    login = web.url.replace("http://", "http://ann:secret@")
    web.login = "Basic YW5uOnNlY3JldA=="
    found = paths({"x": f"{login}/x", "y": f"{login}/moved"})
    assert (content(found["x"]), content(found["y"])) == (b"x", BIG)
    assert Path(found["y"]).name == "moved"


def test_a_body_that_is_cut_is_read_on_from_there(paths, web):
    web.files["/x"] = BIG
    cuts = iter(range(5))

    def cut(request):
        reply = ranged(request, BIG, {"ETag": etag(BIG)})
        if len(reply.body) > 1 and next(cuts, None) is not None:
            reply.cut = len(reply.body) // 2
        return reply

    web.odd["/x"] = cut
    assert content(paths({"x": f"{web.url}/x"})["x"]) == BIG


def test_a_file_that_changes_while_it_is_read_is_read_again_and_never_mixed(paths, web):
    web.files["/x"] = BIG
    new = bytes(reversed(BIG))

    def change(request):
        if len(web.asked("/x")) == 3:
            web.files["/x"] = new

    web.odd["/x"] = change
    assert content(paths({"x": f"{web.url}/x"})["x"]) == new


def test_a_file_that_changes_all_the_time_is_told_and_never_seen(jobs, refused, web):
    web.odd["/x"] = lambda _: web.files.update({"/x": os.urandom(9_000_000)})
    told = refused({"x": f"{web.url}/x"})
    assert told["code"] == "fetch.changing" and "4 readings" in told["why"]
    assert not [path for path in jobs.results.rglob("x") if path.is_file()]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, "http.denied"),
        (403, "http.denied"),
        (404, "input.nothing"),
        (410, "input.nothing"),
        (418, "http.failed"),
    ],
)
def test_a_refusal_is_told_with_the_address_and_without_its_secrets(refused, web, status, code):
    web.odd["/x"] = lambda _: Reply(status, b"no")
    told = refused({"x": f"{web.url.replace('//', '//ann:hunter2@')}/x?sig=hunter3"})
    assert told["code"] == code and str(status) in told["why"] + told["what"]
    assert f"{web.url}/x" in told["what"] and "hunter" not in str(told)


def test_a_list_of_addresses_and_a_container_path(paths, web, tmp_path):
    web.files.update({"/a.txt": b"a", "/b.txt": b"b"})
    wanted = {"x": [f"{web.url}/a.txt", f"{web.url}/b.txt"]}
    found = paths(wanted, {"x": {"container_path": f"{tmp_path}/c"}})["x"]
    assert found == [f"{tmp_path}/c/a.txt", f"{tmp_path}/c/b.txt"]
    assert [content(path) for path in found] == [b"a", b"b"]


def test_a_passthrough_file_and_one_below_a_folder(jobs, web, tmp_path):
    web.files["/a.txt"] = b"a"
    inputs = {f"{tmp_path}/d/b.txt": f"{web.url}/a.txt", f"{tmp_path}/e/": f"{web.url}/a.txt"}
    assert jobs.run(f"cat {tmp_path}/d/b.txt {tmp_path}/e/a.txt", inputs=inputs).out == b"aa"


def test_data_in_the_way_of_a_fetched_input_is_never_replaced(refused, web, tmp_path):
    web.files["/a.txt"] = b"a"
    (tmp_path / "mine").write_text("mine")
    told = refused({"x": f"{web.url}/a.txt"}, {"x": {"container_path": f"{tmp_path}/mine"}})
    assert told["code"] == "input.in_the_way" and (tmp_path / "mine").read_text() == "mine"


def test_what_came_is_told_as_it_comes_and_in_the_end(jobs, web):
    web.files["/x"] = BIG
    ran = jobs.run("true", specs={"x": f"{web.url}/x"}, inputs=["x"])
    last = ran.named("transfer")[-1].facts
    assert (last["what"], last["bytes"], last["total_bytes"], last["files"]) == (
        "x",
        len(BIG),
        len(BIG),
        1,
    )
    assert ran.named("fetched")[0].facts["bytes"] == len(BIG)


@pytest.mark.parametrize(("rate", "warnings"), [(100_000, ["input.slow"]), (50_000_000, [])])
def test_a_source_that_stays_slow_is_told_once_without_its_secrets(
    monkeypatch, capfd, rate, warnings
):
    """By a clock of the test's own: it is told after a minute."""
    now = [0.0]
    monkeypatch.setattr(staging, "time", SimpleNamespace(monotonic=lambda: now[0]))
    wanted = Input(
        key="x", uri="https://ann:hunter2@h/x?sig=hunter3", kind="", target="", options={}
    )
    progress = staging.Progress(Report(), wanted, [Source("x", 1 << 40, "v")])
    progress.add_progress(0, 0)
    for now[0] in range(3, 180, 3):
        progress.add_progress(3 * rate, 0)
    told = capfd.readouterr().err
    _, events = EventFilter().feed(told.encode())
    assert [each.facts["code"] for each in events if each.name == "warning"] == warnings
    assert {each.facts["rate"] for each in events if each.name == "transfer"} == {rate}
    assert "hunter" not in told


def test_the_next_attempt_fetches_nothing_again_and_a_changed_source_anew(jobs, paths, web):
    web.files["/x"] = BIG
    paths({"x": f"{web.url}/x"})
    before = len(web.seen)
    assert content(paths({"x": f"{web.url}/x"}, env={"TAO_ATTEMPT": "2"})["x"]) == BIG
    assert len(web.seen) == before + 1  # the look
    web.files["/x"] = b"new"
    assert content(paths({"x": f"{web.url}/x"}, env={"TAO_ATTEMPT": "3"})["x"]) == b"new"


def test_a_source_that_nobody_can_tell_from_another_version_is_fetched_anew(paths, web):
    web.files["/x"] = b"old"
    web.etags = False
    paths({"x": f"{web.url}/x"})
    web.files["/x"] = b"new"
    assert content(paths({"x": f"{web.url}/x"}, env={"TAO_ATTEMPT": "2"})["x"]) == b"new"


def test_fetched_inputs_are_no_results(jobs, web):
    web.files["/x"] = b"x"
    ran = jobs.run(
        "cat {config_path}",
        specs={"x": f"{web.url}/x", "o": ""},
        inputs=["x"],
        outputs=["o"],
        config_format="json",
    )
    assert ran.code == 0 and not [path for path in ran.files if "input" in path]

"""Event lines among a command's bytes: every event comes out, and the command's bytes are exactly
what they were.
"""

from __future__ import annotations

import ast
import itertools
import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tao_sdk
from tao_sdk.net.failure import Failure
from tao_sdk.runner.events import EventFilter, parse_event
from tao_sdk.runner.jsontext import dumps
from tao_sdk.runner.report import LONGEST, SEAM, Report, encode_event, secrets_of
from tao_sdk.script_runner import build_entrypoint

TRICKY = [
    b"@tao ",
    b"@tao {",
    b'@tao {"event": 1}\n',
    b"@tao {nonsense}\n",
    b"\n",
    b"\r",
    b"\x1e",
    b"\x1e\n",
    b"\xff\xfe",
    b"@",
    b"x",
]
EVENT = object()
PIECES = st.lists(
    st.one_of(st.just(EVENT), st.sampled_from(TRICKY), st.binary(max_size=20)), max_size=12
)


def woven(pieces):
    """The stream as the runner writes it, the command's bytes, and how many events there are."""
    stream = user = b""
    events = 0
    for piece in pieces:
        if piece is EVENT:
            events += 1
            joined = bool(user) and not user.endswith(b"\n")
            stream += (
                (SEAM + encode_event("stage", {"stage": "x", "joined": True}))
                if joined
                else encode_event("stage", {"stage": "x"})
            )
        else:
            user += piece
            stream += piece
    return stream, user, events


@pytest.mark.slow
@settings(max_examples=400)
@given(PIECES, st.lists(st.integers(1, 60), min_size=1))
def test_any_bytes_in_any_chunks_come_back_as_they_were(pieces, sizes):
    stream, user, events = woven(pieces)
    divider, out, found = EventFilter(), b"", []
    for size in itertools.cycle(sizes):
        if not stream:
            break
        chunk, stream = stream[:size], stream[size:]
        more, new = divider.feed(chunk)
        out, found = out + more, found + new
    assert out + divider.close() == user
    assert len(found) == events


def test_a_line_of_the_command_is_seen_at_once_with_its_newline():
    assert EventFilter().feed(b"epoch 1\n") == (b"epoch 1\n", [])
    assert EventFilter().feed(b"50 %\r") == (b"50 %\r", [])


def test_a_line_that_only_looks_like_an_event_is_left_alone():
    for line in (
        b"@tao {}\n",
        b'@tao {"event": "x"}\n',
        b'@tao ["event"]\n',
        b"@tao hello\n",
        b' @tao {"event": "x", "time": 1}\n',
    ):
        assert EventFilter().feed(line) == (line, [])


def test_a_line_that_is_nested_too_deeply_is_no_event():
    assert parse_event(b'@tao {"event": ' + b"[" * 15_000) is None


@pytest.mark.parametrize(
    "facts",
    [
        '"time": 1' + "0" * 400,
        '"time": NaN',
        '"time": true',
        '"time": 1, "deep": ' + "[" * 7000 + "]" * 7000,
        '"time": 1, "bytes": "many"',
        '"time": 1, "bytes": 1e999',
        '"time": 1, "eta": [1]',
        '"time": 1, "what": {"a": 1}',
        '"time": 1, "stage": ["files"]',
        '"time": 1, "paths": 7',
        '"time": 1, "paths": [7]',
        '"time": 1, "whatever": {"a": 1}',
    ],
)
def test_a_line_that_the_runner_would_not_have_written_is_the_commands_own(facts):
    line = b'@tao {"event": "fetched", ' + facts.encode() + b"}\n"
    assert EventFilter().feed(line) == (line, [])


def test_an_endless_line_that_begins_like_an_event_is_not_held_back():
    divider = EventFilter()
    given_back = divider.feed(b"@tao {")[0]
    for _ in range(100):
        given_back += divider.feed(b"x" * 1000)[0]
        assert len(divider.held) <= LONGEST + 1000
    assert given_back + divider.close() == b"@tao {" + b"x" * 100_000


def test_an_event_with_a_very_long_text_is_cut_to_one_line_a_reader_can_hold():
    line = encode_event("warning", {"what": "x" * 100_000, "paths": ["p" * 100] * 1000})
    event = parse_event(line)
    assert len(line) <= LONGEST
    assert event is not None and event.facts["what"].startswith("xxx")


def test_an_event_holds_any_text_on_one_line():
    event = parse_event(encode_event("warning", {"what": "a\nb\x1e\n@tao {\udc80 é"}))
    assert event is not None and event.facts == {"what": "a\nb\x1e\n@tao {\udc80 é"}


def test_an_event_behind_an_open_line_starts_its_own_line_and_the_bytes_are_restored(jobs):
    ran = jobs.run("printf 'out open'; printf 'err open' >&2")
    assert b"\n@tao " in ran.raw and b"err open@tao" not in ran.raw
    assert (ran.out, ran.err) == (b"out open", b"err open")
    assert ran.named("ended")[0].joined


def test_where_both_streams_are_one_an_event_starts_its_own_line_too(jobs):
    text = build_entrypoint(command="echo first >&2; printf 'open'")["command"]
    both = subprocess.run(
        ["bash", "-c", text],
        env=jobs.environment(None),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
    ).stdout
    divider = EventFilter()
    out, events = divider.feed(both)
    assert out + divider.close() == b"first\nopen"
    assert events[-1].facts == {"stage": "done"}


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
    ),
    lambda children: st.one_of(
        st.lists(children, max_size=3), st.dictionaries(st.text(), children, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=200)
@given(JSON)
def test_the_runners_json_is_json(value):
    assert json.loads(dumps(value)) == value
    assert dumps(value).isascii()


def test_a_name_that_is_no_unicode_is_told_too():
    assert dumps("\udc80") == json.dumps("\udc80")


@pytest.mark.parametrize(
    "facts",
    [
        '"what": ["a"]', '"bytes": "many"', '"rate": NaN', f'"total_bytes": 1{"0" * 400}', '"paths": 7', '"seconds": true',
        f'"time": 1{"0" * 400}', f'"deep": {"[" * 7000}{"]" * 7000}',
    ],
)  # fmt: skip
def test_a_line_that_holds_what_no_event_holds_is_the_commands(facts):
    assert parse_event(b'@tao {"event": "transfer", "time": 1, "bytes": 1}\n')
    assert parse_event(b'@tao {"event": "transfer", "time": 1, %s}\n' % facts.encode()) is None


def test_a_failure_quotes_no_secret_of_the_jobs_environment(capfd):
    """A server may answer with the token that it was sent."""
    report = Report(
        secrets_of(
            {
                "HF_TOKEN": "hf_tok",
                "MY_api_key": "hf_tok-longer\n",
                "A_TOKEN": "on",
                "HOME": "/root",
            }
        )
    )
    report.tell_failure(
        Failure("hub.private", "hf_tok-longer is on /root", "you sent Bearer hf_tok")
    )
    report.queue_event("warning", code="x", what="hf_tok")
    told = capfd.readouterr().err
    assert "hf_tok" not in told
    assert "*** is on /root" in told


def test_every_warning_of_the_runner_says_what_why_and_what_to_do_next():
    calls = [
        (path, node)
        for room in ("net", "runner")
        for path in (Path(tao_sdk.__file__).parent / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    warnings = [(path, node) for path, node in calls if is_warning(node)]
    assert len(warnings) > 10
    assert [f"{path.name}:{node.lineno}" for path, node in warnings if not is_whole(node)] == []


def is_warning(call):
    named = (
        isinstance(call.args[0], ast.Constant) and call.args[0].value == "warning"
        if call.args
        else False
    )
    return named or (call.func.attr == "warn" and len(call.args) > 0)


def is_whole(call):
    """Positions of warn(code, what, why, next), names of any other, or all that a Failure says."""
    given = {each.arg for each in call.keywords}
    return len(call.args) == 4 or {"code", "what", "why", "next"} <= given or None in given

"""Actions on several jobs at once: what an interrupt leaves."""

from __future__ import annotations

import threading
import time

import pytest

from tao_sdk.engine.side_by_side import side_by_side


@pytest.mark.slow
def test_an_interrupt_while_a_thread_starts_waits_for_the_action_of_that_thread_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = threading.Event()
    started: list[threading.Thread] = []
    ended: list[int] = []
    start = threading.Thread.start

    def interrupted_start(thread: threading.Thread) -> None:
        start(thread)
        started.append(thread)
        if len(started) == 2:
            begun.wait()
            raise KeyboardInterrupt

    def act(number: int) -> None:
        if number == 0:
            begun.wait()
        else:
            begun.set()
            time.sleep(0.5)
        ended.append(number)

    monkeypatch.setattr(threading.Thread, "start", interrupted_start)
    with pytest.raises(KeyboardInterrupt):
        side_by_side(act, [0, 1, 2, 3], most=2)
    assert 1 in ended
    assert not {2, 3} <= set(ended)

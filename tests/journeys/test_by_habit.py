"""What fingers type that know docker, kubectl and sbatch: each wrong turn leads to the right one,
and no habit starts a job that nobody meant.
"""

from __future__ import annotations

import pytest

from support.tao_command import Tao

pytestmark = pytest.mark.slow

DAY = [
    (("submit", "job.yaml"), "Did you mean tao run?"),
    (("run", "--dry-run", "job.yaml"), "tao plan"),
    (("run", "-n", "4", "job.yaml"), "--nodes N"),
    (("run", "--retry", "2", "job.yaml"), "--retries N"),
    (("ps",), "Did you mean tao ls?"),
    (("ls", "-l"), "tao status JOB"),
    (("logs", "-5"), "--tail N"),
    (("exec", "try", "bash"), "tao why JOB"),
    (("results", "-o", "here"), "--fetch DIR"),
    (("stop", "try"), "Did you mean tao cancel?"),
    (("resume", "try"), "Did you mean tao retry?"),
    (("rm", "-f", "try"), "tao rm --force JOB"),
]


def test_a_day_by_habit_is_led_right_and_starts_nothing(tao: Tao) -> None:
    tao.write("job.yaml", "command: 'true'\ngpu_count: 0\n")
    for words, told in DAY:
        ran = tao(*words)
        assert (ran.code, ran.out) == (2, ""), words
        assert told in ran.err, words
    assert tao("ls", "--json").json == []

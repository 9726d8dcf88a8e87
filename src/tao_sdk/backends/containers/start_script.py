"""Start script: what /bin/sh does in a container before the job's command, and the environment that
it reads from standard input. Pure.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from datetime import timedelta

from tao_sdk.backends.shell import SHARED_SCRIPTS, assign_variables, load_script
from tao_sdk.model.plan import Attempt

GRACE = 10  # seconds between SIGTERM and SIGKILL unless the caller says otherwise
FOLDER = ".tao-job"  # in the container: what is delivered into it
GRACE_FILE = f"/{FOLDER}/grace"  # the seconds that a cancel gives
MAX_ARGUMENT = 96 * 1024  # bytes; Linux takes 128 KiB
NOT_BEGUN = 125  # the exit code of what could not begin
NOT_WHOLE = "start.not_whole"  # the code of the event that tells it
# What the start scripts of earlier versions print instead of the event.
NOT_WHOLE_BEFORE = "tao: the environment did not arrive whole"
TELL_NOT_WHOLE = (
    f"""printf '@tao {{"event": "failed", "time": %d, "code": "{NOT_WHOLE}", """
    """"what": "The environment did not arrive whole."}\\n' "$(date +%s 2>/dev/null)" >&2"""
)
# Started again from outside, a container would wait for an environment that nobody gives it any
# more. It says nothing: its job may have ended long ago, and its log with it. Where the mark can be
# made nowhere, it waits.
ONLY_ONCE = f"""_tao_mark=.tao-$TAO_JOB_ID-$TAO_ATTEMPT
if [ -e "/$_tao_mark" ] || [ -e "/tmp/$_tao_mark" ]; then exit {NOT_BEGUN}; fi"""
MARK = """{ echo > "/$_tao_mark"; } 2>/dev/null || { echo > "/tmp/$_tao_mark"; } 2>/dev/null
unset _tao_mark"""
# The environment comes through standard input: so it is on no disk, neither before the start nor
# after a crash.
TAKE_IN = f"""_tao_newline='
'
while IFS= read -r _tao_line && [ "$_tao_line" != whole ]; do eval "$_tao_line"; done
[ "$_tao_line" = whole ] || {{ {TELL_NOT_WHOLE}; exit {NOT_BEGUN}; }}
unset _tao_line _tao_newline"""
# Of results in a folder that the command's user may not write to, the command itself says more.
MAKE_RESULTS = '[ -z "$TAO_RESULTS_DIR" ] || mkdir -p "$TAO_RESULTS_DIR" 2>/dev/null'
USE_BASH = 'if command -v bash >/dev/null; then set -- bash "$@"; else set -- /bin/sh "$@"; fi'

# The container's init tells the whole group of SIGTERM where its environment says so. Elsewhere the
# shell does.
WHO_TELLS = """if [ $$ -eq 1 ] || [ -z "${TINI_KILL_PROCESS_GROUP:-}" ]; then tao_tells=yes; fi"""


def mark_paths(attempt: Attempt) -> Iterator[str]:
    """The paths at which MARK may lie in the container of an attempt.

    Its name is made of TAO's variables, which an ENTRYPOINT such as `env -i` may have cleared.
    """
    for job_id, number in ((attempt.job_id, attempt.number), ("", ""), (attempt.job_id, "")):
        name = f".tao-{job_id}-{number}"
        yield from (f"/{name}", f"/tmp/{name}")


def is_long(command: str) -> bool:
    """True if the command is too long for an argument, and is delivered as a file."""
    return len(command.encode()) > MAX_ARGUMENT


def start_script(command: str, time_limit: timedelta | None, takes_environment: bool) -> str:
    """Shell text that reads the environment, sets the time limit and runs the command, in bash
    where the image has it.
    """
    return "\n".join(steps(command, time_limit, takes_environment))


def steps(command: str, time_limit: timedelta | None, takes_environment: bool) -> Iterator[str]:
    if takes_environment:
        yield from (ONLY_ONCE, TAKE_IN, MARK, MAKE_RESULTS)
    if time_limit is not None:
        yield load_script(SHARED_SCRIPTS, "sleep")
    yield f"set -- /{FOLDER}/command" if is_long(command) else 'set -- -c "$1"'
    yield USE_BASH
    seconds = str(math.ceil(time_limit.total_seconds())) if time_limit else ""
    yield assign_variables({"tao_limit": seconds, "tao_grace": str(GRACE), "tao_tells": ""})
    yield WHO_TELLS
    yield load_script(SHARED_SCRIPTS, "run_command")
    yield 'hear_signals\nrun_command "$@"'


def statements(values: Mapping[str, str]) -> str:
    """What TAKE_IN reads: one statement a line, and a last line that says that it is whole.

    `command`: a shell that keeps a name for itself (bash its UID) says so and goes on, where it
    would end without it.
    """
    lines: list[str] = []
    for name, value in values.items():
        quoted = shlex.quote(value).replace("\n", "'\"$_tao_newline\"'")
        lines.append(f"command export {name}={quoted}\n")
    return "".join([*lines, "whole\n"])

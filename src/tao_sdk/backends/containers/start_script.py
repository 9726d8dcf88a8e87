"""Start script: what /bin/sh runs in a container before the job's command. Pure.

Also here: the environment that the script reads from standard input.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from datetime import timedelta

from tao_sdk.backends.shell import SHARED_SCRIPTS, assign_variables, load_script
from tao_sdk.model.plan import Attempt

GRACE = 10  # default seconds between SIGTERM and SIGKILL
FOLDER = ".tao-job"  # in the container: the folder for delivered files
GRACE_FILE = f"/{FOLDER}/grace"  # the seconds that a cancel gives
MAX_ARGUMENT = 96 * 1024  # bytes; Linux takes 128 KiB
NOT_BEGUN = 125  # the exit code of a container that could not begin
NOT_WHOLE = "start.not_whole"  # the code of the event for an incomplete environment
# The start scripts of earlier versions print this instead of the event.
NOT_WHOLE_BEFORE = "tao: the environment did not arrive whole"
TELL_NOT_WHOLE = (
    f"""printf '@tao {{"event": "failed", "time": %d, "code": "{NOT_WHOLE}", """
    """"what": "The environment did not arrive whole."}\\n' "$(date +%s 2>/dev/null)" >&2"""
)
# If somebody starts the container again from outside, it would wait for an environment that nobody
# sends. So it ends at once if its mark is there, and prints nothing: its job and its log may have
# ended long ago. If no mark can be written, it waits.
ONLY_ONCE = f"""_tao_mark=.tao-$TAO_JOB_ID-$TAO_ATTEMPT
if [ -e "/$_tao_mark" ] || [ -e "/tmp/$_tao_mark" ]; then exit {NOT_BEGUN}; fi"""
MARK = """{ echo > "/$_tao_mark"; } 2>/dev/null || { echo > "/tmp/$_tao_mark"; } 2>/dev/null
unset _tao_mark"""
# The environment comes through standard input, so no disk holds it before the start or after a
# crash.
TAKE_IN = f"""_tao_newline='
'
while IFS= read -r _tao_line && [ "$_tao_line" != whole ]; do eval "$_tao_line"; done
[ "$_tao_line" = whole ] || {{ {TELL_NOT_WHOLE}; exit {NOT_BEGUN}; }}
unset _tao_line _tao_newline"""
# If the command's user may not write to the folder, the command's own error says more.
MAKE_RESULTS = '[ -z "$TAO_RESULTS_DIR" ] || mkdir -p "$TAO_RESULTS_DIR" 2>/dev/null'
USE_BASH = 'if command -v bash >/dev/null; then set -- bash "$@"; else set -- /bin/sh "$@"; fi'

# The container's init sends SIGTERM to the whole group if its environment says so. Otherwise the
# shell does.
WHO_TELLS = """if [ $$ -eq 1 ] || [ -z "${TINI_KILL_PROCESS_GROUP:-}" ]; then tao_tells=yes; fi"""


def mark_paths(attempt: Attempt) -> Iterator[str]:
    """Yield the paths at which MARK may lie in the container of an attempt.

    The mark's name contains TAO's variables. An ENTRYPOINT such as `env -i` may have cleared them.
    """
    for job_id, number in ((attempt.job_id, attempt.number), ("", ""), (attempt.job_id, "")):
        name = f".tao-{job_id}-{number}"
        yield from (f"/{name}", f"/tmp/{name}")


def is_long(command: str) -> bool:
    """True if the command is too long for an argument, so that it is delivered as a file."""
    return len(command.encode()) > MAX_ARGUMENT


def start_script(command: str, time_limit: timedelta | None, takes_environment: bool) -> str:
    """Shell text that reads the environment, sets the time limit and runs the command.

    The command runs in bash if the image has it.
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
    """The text that TAKE_IN reads: one statement a line, and a last line `whole`.

    Each statement begins with `command`. A shell reserves some names (bash its UID). With `command`
    it prints an error for such a name and goes on, without it the shell would end.
    """
    lines: list[str] = []
    for name, value in values.items():
        quoted = shlex.quote(value).replace("\n", "'\"$_tao_newline\"'")
        lines.append(f"command export {name}={quoted}\n")
    return "".join([*lines, "whole\n"])

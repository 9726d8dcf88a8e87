"""Commands of any shape with a hostile value in them, run by real shells: nothing of it is run.

Bytes choose the parts, so that a search can change them. What a command does with a value on its
own, such as `v={x}; eval "$v"`, is no part here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tao_sdk.model.errors import SpecError
from tao_sdk.payload.commands import with_arguments
from tao_sdk.runner.template import fill_template

SHELLS = [each for each in ("bash", "dash") if shutil.which(each)]
LONGEST = 20  # seconds that a shell gets
MARK = "MARK"  # the file that a value makes where it is run
VALUES = (
    f"a[$(touch {MARK})]",
    f"$(touch {MARK})",
    f"x;touch {MARK}",
    f"touch {MARK}",
    f"-va[$(touch {MARK})]",
    f"-ctouch {MARK}",
    f"-c 'touch {MARK}'",
    f"'$(touch {MARK})",
    f"([$(touch {MARK})]=1)",
    f"1e touch {MARK}",
    f"-e1e touch {MARK}",
    f'BEGIN{{system("touch {MARK}")}}',
    f'-eBEGIN{{system("touch {MARK}")}}',
    f"import os;os.system('touch {MARK}')",
    f"-cimport os;os.system('touch {MARK}')",
    f"-Stouch {MARK}",
)
WORDS = (
    "{x}",
    '"{x}"',
    "'{x}'",
    "1",
    "b",
    "{x}b",
    "b{x}",
    "k={x}",
    "a[{x}]",
    "a[{x}]=1",
    "a[1 + {x}]=1",
    "'a[{x}]'",
    "[{x}]=1",
    "-v",
    "-v{x}",
    "-n",
    "-p",
    "--",
    "=",
    "-eq",
    "-a",
    "'b {x}'",
    '"$(printf %s. {x})"',
    "$(echo {x})",
    "<(echo {x})",
    ">(sh)",
    ">(cat | sh)",
    "> >(sh)",
    "> out",
    "<<< {x}",
    "< <(echo {x})",
    "{x}>out",
)
CONDITION_WORDS = (*WORDS[:8], "-eq", "-v", "-n", "!", "(", ")", "&&", "||", "==", "=~", "<", "\n")
LISTED = (
    "{}",
    "echo {}",
    "printf {}",
    "printf %s {}",
    "printf -v k {}",
    "printf '%d %b' {}",
    "test {}",
    "[ {} ]",
    "[ ! {} ]",
    "[ -n b -a {} ]",
    "let {}",
    "k={}",
    "k=({})",
    "k+=({})",
    "n={}",
    "n+={}",
    "n=({})",
    "declare {}",
    "declare -i {}",
    "declare -ai n=({})",
    "declare -a n=({})",
    "declare -A n=({})",
    "typeset -i n={}",
    "export {}",
    "export n={}",
    "readonly n={}",
    "local n={}",
    "local -i n={}",
    "read {}",
    "read n {}",
    "unset {}",
    "wait -n -p {}",
    "wait {}",
    "for n in {}; do :; done",
    "for {} in 1; do :; done",
    "case {} in {}) :; esac",
    "eval {}",
    "eval : {}",
    "trap {} EXIT",
    "trap : {}",
    "sh {}",
    "sh -c : {}",
    "sh -c {}",
    "bash -o errexit {}",
    "xargs sh {}",
    "xargs {}",
    "exec {}",
    "exec",
    "env {}",
    "command {}",
    "builtin {}",
    "set -- {}",
    "cat {}",
    "cd {}",
    "sed p {}",
    "sed {}",
    "awk {}",
    "python3 {}",
    "coproc {}",
    "mapfile {}",
    "mapfile n {}",
    "getopts {}",
    "shift {}",
    "alias {}",
    "hash {}",
    "RANDOM={}",
    "OPTIND={}",
    "for SECONDS in {}; do :; done",
    "n=$(({}))",
    "((n = {}))",
    "k=$[{}]",
    "declare -n n; n={}",
    "PS4={}; set -x; :",
    "export PS4={}; set -x; :",
    "PROMPT_COMMAND={} bash -c :",
    "BASH_ENV={} bash -c :",
    "export BASH_ENV={}; bash -c :",
    "for BASH_ENV in {}; do export BASH_ENV; bash -c :; done",
    "mapfile -c 1 -C {} n < <(echo b)",
    "compgen -C {}",
    "compgen -W {}",
    "find . -maxdepth 0 -exec sh -c {} \\;",
    "find . -maxdepth 0 -exec {} \\;",
    "echo b | xargs -I% sh -c {}",
    "echo b | sed {}",
    "echo b | sed p {}",
    "echo b | sed -n -e p {}",
    "echo b | awk {}",
    "echo b | awk -v n=1 {}",
    "python3 -u {}",
    "python3 -c {}",
    "timeout 9 python3 {}",
    "nice sh -c {}",
    "perl {}",
    "perl -n {}",
    "env -i {} true",
    "env A=1 {} true",
    "time {}",
    "! {}",
)
AROUND = (
    "COMMAND",
    "declare -i n; COMMAND",
    "declare -ai n; COMMAND",
    "declare -a n; COMMAND",
    "declare -A n; COMMAND",
    "a=(1 2); COMMAND",
    "sleep 0 & COMMAND",
    "COMMAND; eval :",
    "COMMAND; sh",
    "set -x; COMMAND",
    "COMMAND\nshow {x}",
    "f() { local -i n; COMMAND; }; f",
    "f() { COMMAND; }; f",
    "f() { COMMAND; }; f | sh",
    "f() { sh; }; COMMAND | f",
    "( COMMAND )",
    "{ COMMAND; }",
    "if COMMAND; then :; fi",
    "while COMMAND; do break; done",
    "for i in 1; do COMMAND; done",
    "case b in b) COMMAND;; esac",
    "true && COMMAND",
    "false || COMMAND",
    "COMMAND | cat",
    "COMMAND | sh",
    "COMMAND | xargs sh",
    "COMMAND | while read n; do :; done",
    "COMMAND > >(sh)",
    "exec > >(sh); COMMAND",
    "exec < <(COMMAND); sh",
    'sh -c "$(COMMAND)"',
    'eval "$(COMMAND)"',
    'k="$(COMMAND)"',
    "cat <<E\n$(COMMAND)\nE",
    "sh <<E\n$(COMMAND)\nE",
    "cat <<E | sh\n{x} $(COMMAND)\nE",
    "sh <(COMMAND)",
    ". <(COMMAND)",
    "coproc COMMAND",
    "# it's {x}\nCOMMAND",
    "[[ -n b && -n $(COMMAND) ]]",
    "COMMAND; sleep 0 & wait -n",
)


def run_hostile_command(data: bytes) -> None:
    """Build the command that the bytes choose, and run it, unless it is refused."""
    choices = iter(data)
    command, value = hostile_command(choices), chosen(VALUES, choices)
    try:
        text = fill_template(with_arguments(command, {"x": value}, ()), {})
    except SpecError:
        return
    for shell in SHELLS:
        assert not marks(shell, text), f"{shell} ran {value!r} in {command!r}"


def hostile_command(choices: Iterator[int]) -> str:
    inner = condition(choices) if next(choices, 0) % 4 == 0 else listed(choices)
    for _ in range(next(choices, 0) % 3):
        around = chosen(AROUND, choices)
        inner = around.replace("COMMAND", inner)
    return inner


def listed(choices: Iterator[int]) -> str:
    words = [chosen(WORDS, choices) for _ in range(1 + next(choices, 0) % 3)]
    return chosen(LISTED, choices).replace("{}", " ".join(words))


def condition(choices: Iterator[int]) -> str:
    words = [chosen(CONDITION_WORDS, choices) for _ in range(1 + next(choices, 0) % 7)]
    return f"[[ {' '.join(words)} ]]"


def chosen(parts: Sequence[str], choices: Iterator[int]) -> str:
    return parts[next(choices, 0) % len(parts)]


def marks(shell: str, text: str) -> bool:
    """Whether the shell, or what it starts, makes the file."""
    with tempfile.TemporaryDirectory() as folder:
        started = subprocess.Popen(
            [shell, "-c", text],
            cwd=folder,
            env={"PATH": os.environ["PATH"]},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):  # sh >(sh) waits for itself
            started.communicate(timeout=LONGEST)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()
        return Path(folder, MARK).exists()

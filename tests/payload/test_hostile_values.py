"""Hostile values in every place of a command, run by real shells: the value arrives, and nothing of
it is run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from support.hostile_commands import run_hostile_command
from tao_sdk.model.errors import SpecError
from tao_sdk.payload.commands import with_arguments
from tao_sdk.payload.values import Hole, Tree
from tao_sdk.runner.template import fill_template

INSTALLED = [["bash"], ["bash", "--posix"], ["dash"], ["busybox", "sh"]]
SHELLS = [each for each in INSTALLED if shutil.which(each[0])]
QUICK_SHELL, *SLOW_SHELLS = SHELLS
EACH_SHELL = [
    QUICK_SHELL,
    *(pytest.param(shell, marks=pytest.mark.slow) for shell in SLOW_SHELLS),
]
SHOW = "show() { printf '%s\\0' \"$@\"; }; "
HOSTILE = [
    "$(touch X)",
    "`touch X`",
    "';touch X;'",
    '";touch X;"',
    "'\"$(touch X)\"'",
    "; touch X #",
    "\ntouch X\n",
    "\nEOF\ntouch X\n",
    ") touch X ;;",
    "${IFS}$(touch X)",
    "a[$(touch X)]",
    "$((a[$(touch X)]))",
    "\\",
    "\\'; touch X",
    "x\\",
    "* ? ~ [a-z]",
    "~",
    "-n",
    "--",
    "!",
    "}",
    "{x}",
    "${TAO_ARG_1}",
    "a  b\t",
    "日本 é 😀",
    "\x81\x82\u0088",
    "\x7f\x01\x1b[31m",
    "%s%n",
    "=",
    "PATH=/",
]
VALUES = st.one_of(
    st.sampled_from(HOSTILE),
    st.text("'\"`$(){};|&<>\\\n\t #*?[]~!-=/aX", min_size=1, max_size=12),
    st.text(
        st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=8
    ),
)


def run(shell, folder, command, value, known=True):
    """What a shell prints for the command, in a folder where nothing new may appear."""
    x = value if known else Hole("x", "")
    text = fill_template(
        with_arguments(SHOW + command, {"x": x}, ()), {} if known else {"x": value}
    )
    before = sorted(folder.iterdir())
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [*shell, "-c", text], cwd=folder, env=env, capture_output=True, stdin=subprocess.DEVNULL
    )
    assert sorted(folder.iterdir()) == before, text
    return (
        done.stdout.decode("utf-8", "surrogateescape"),
        done.stderr.decode("utf-8", "replace"),
        text,
    )


# what stands in a command -> what the value becomes there
QUOTINGS = [
    ("{x}", "%s"),
    ('"{x}"', "%s"),
    ("'{x}'", "%s"),
    ("k={x}", "k=%s"),
    ('"a {x}"b', "a %sb"),
    ("'\"{x}'", '"%s'),
]
INSIDE = [
    "\"$(printf '%s.' WORD)\"",
    '"$(printf "%s." WORD; : \')\')"',
    '"$(case a in a) printf %s. WORD ;; esac)"',
    '"$(case a in (b|a) printf %s. WORD ;; esac)"',
    '"$(# it\'s )\nprintf %s. WORD)"',
    '"$( (printf %s. WORD) )"',
    '"$(cat <<END\n$(printf %s. WORD)\nEND\n)"',
]
AROUND = [
    "COMMAND",
    "( COMMAND )",
    "{ COMMAND; }",
    "if true; then COMMAND; else :; fi",
    "case a in b) :;; a) COMMAND;; esac",
    "for i in 1; do COMMAND; done",
    "while :; do COMMAND; break; done",
    "f() { COMMAND; }; f",
    "true && COMMAND",
    "! true || COMMAND 2>&1",
    "COMMAND | cat",
    "set -eu; COMMAND",
    "# don't {x}\nCOMMAND # isn't {x}\n:",
    "cat <<EOF >/dev/null; :\nit's {x} \\`\nEOF\nCOMMAND",
    "cat <<'EOF' >/dev/null\nit's {x} $(touch X) \\`\nEOF\nCOMMAND",
    ': ${#PATH} $((1 << 2)) "`echo "\'"`" \\\' \\"; COMMAND',
    "v=${v:-'}'}; COMMAND",
    'a="$PATH"; COMMAND',
]


@st.composite
def words(draw, depth=2):
    """(a word with placeholders, what it becomes)"""
    word, becomes = draw(st.sampled_from(QUOTINGS))
    for level in range(draw(st.integers(0, depth))):
        word = draw(st.sampled_from(INSIDE)).replace("END", f"END{level}").replace("WORD", word)
        becomes += "."
    return word, becomes


@st.composite
def commands(draw):
    """(a command with placeholders, what each word becomes)"""
    found = draw(st.lists(words(), min_size=1, max_size=3))
    command = " ".join(["show", *(word for word, _ in found)])
    for around in draw(st.lists(st.sampled_from(AROUND), max_size=3)):
        command = around.replace("COMMAND", command)
    return command, [becomes for _, becomes in found]


@pytest.mark.slow
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(commands(), VALUES, st.booleans(), st.sampled_from(SHELLS))
@example(("show {x}", ["%s"]), "$(touch X)", False, SHELLS[0])
def test_only_the_value_arrives_and_nothing_is_run(tmp_path: Path, made, value, known, shell):
    command, becomes = made
    out, err, text = run(shell, tmp_path, command, value, known)
    assert out == "".join(each.replace("%s", value) + "\0" for each in becomes), (text, err)


FIXED = [
    ("show \"$(printf '%s.' {x})\"", "%s.\0"),
    ("cat <<EOF\n{x}\nEOF", "%s\n"),
    ("cat <<'EOF'\n{x} $HOME \\$ `id`\nEOF", "%s $HOME \\$ `id`\n"),
    ('cat <<"E F"\nnone\nE F\nshow {x}', "none\n%s\0"),
    ("cat <<A <<'B'\n{x}\nA\n{x}\nB\nshow {x}", "%s\n%s\0"),
    ('v={x}; show "$v"', "%s\0"),
    ('export v={x}; show "$v"', "%s\0"),
    ('v={x} sh -c \'printf "%%s" "$v"\'', "%s"),
    ('for i in {x} b; do show "$i"; done', "%s\0b\0"),
    ("case {x} in {x}) show {x};; *) show no;; esac", "%s\0"),
    ('set -- {x}; shift 0; show "$@"', "%s\0"),
    ("env -i printf '%%s' {x}", "%s"),
    ('sh -c \'printf "%%s" "$1"\' _ {x}', "%s"),
    ("exec printf '%%s' {x}", "%s"),
    ("show() { printf '[%%s]' \"$@\"; }; show a \\\n  {x}", "[a][%s]"),
    ("awk -v 'n=1' 'BEGIN {printf \"%%s\", ARGV[1]}' {x}", "%s"),
]


@pytest.mark.slow
@pytest.mark.parametrize("shell", EACH_SHELL, ids="-".join)
@pytest.mark.parametrize(("command", "becomes"), FIXED)
@pytest.mark.parametrize("known", [True, False])
def test_a_hostile_value_arrives_in_every_usual_place(
    tmp_path: Path, shell, command, becomes, known
):
    for value in HOSTILE:
        out, err, text = run(shell, tmp_path, command.replace("%%", "%"), value, known)
        assert out == becomes.replace("%s", value), (text, err)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("train $'a{x}'", "inside $'...'"),
        ("train `name {x}`", "Write $(...) instead"),
        ('train "`name {x}`"', "backquotes"),
        ("train ${v:-{x}}", "inside ${...}"),
        ('train "${v#{x}}"', "inside ${...}"),
        ("cat <<{x}\na\n{x}", "delimiter of a here-document"),
        ("cat <<'E F'\n{x}\nE F\n", "delimiter of a here-document"),
        ("train \\{x}", "behind a backslash"),
        ('train "\\{x}"', "behind a backslash"),
        ("{x}=1 train", "name of a variable"),
        ("export {x}", "name of a variable"),
        ("export a=1 {x}=2", "name of a variable"),
        ("for {x} in 1; do :; done", "name of a variable"),
        ("read -r {x}", "name of a variable"),
        ("unset {x}", "name of a variable"),
        ("printf -v {x} 1", "name of a variable"),
        ("[[ -v {x} ]]", "name of a variable"),
        ("{x}() { :; }", "name of a variable"),
        ("function {x} { :; }", "name of a variable"),
        ("echo $((1 + {x}))", "no whole number"),
        ("(( {x} ))", "no whole number"),
        ("echo $[{x}]", "no whole number"),
        ("a[{x}]=1", "no whole number"),
        ("a=([{x}]=1)", "no whole number"),
        ("let n={x}", "no whole number"),
        ("[[ 1 -eq {x} ]]", "no whole number"),
        ("bash -c 'train {x}'", "reads as code"),
        ('bash -lc "train {x}"', "reads as code"),
        ("sudo -u me timeout 5 /bin/sh -o pipefail -c 'cd /x && train {x}'", "reads as code"),
        ("srun bash -c {x}", "reads as code"),
        ("$SHELL -c 'train {x}'", "reads as code"),
        ("su me -c 'train {x}'", "reads as code"),
        ("eval train {x}", "reads as code"),
        ("eval 'train {x}'", "reads as code"),
        ("trap 'rm {x}' EXIT", "reads as code"),
        ("ssh host train {x}", "reads as code"),
        ("python3 -c 'open(\"{x}\")'", "reads as code"),
        ("/usr/bin/python3.11 -c'open(\"{x}\")'", "reads as code"),
        ("awk -v a=1 '/{x}/ {print}' file", "reads as code"),
        ("sed -e 's/a/{x}/' file", "reads as code"),
        ("bash <<EOF\ntrain {x}\nEOF", "reads as code"),
        ("python3 - <<'EOF'\nopen('{x}')\nEOF", "reads as code"),
        ("cat <<EOF | sh\ntrain {x}\nEOF", "reads as code"),
        ("bash <<< 'train {x}'", "reads as code"),
        ("echo train {x} | ssh host", "reads as code"),
        ("declare -i n={x}", "no whole number"),
        ('show "$(bash -c "train {x}")"', "reads as code"),
        ('bash -c "$(echo train {x})"', "reads as code"),
        ('eval "$(printf %s {x})"', "reads as code"),
        ('eval "$(echo $(echo {x}))"', "reads as code"),
        ("bash -c \"$(cat <<'EOF'\ntrain {x}\nEOF\n)\"", "reads as code"),
        ("bash <(echo train {x})", "reads as code"),
        ("source <(echo {x})", "reads as code"),
        (". /dev/stdin <<EOF\n{x}\nEOF", "reads as code"),
        ("(echo {x}) | sh", "reads as code"),
        ("sed -n -e p -e '{x}' file", "reads as code"),
        ("tmux new -d 'train {x}'", "reads as code"),
        ("PS4={x}; set -x", "reads as code"),
        ("BASH_ENV={x} bash train.sh", "reads as code"),
        ("bash -euxo pipefail -c 'train {x}'", "reads as code"),
        ("bash -cO extglob 'train {x}'", "reads as code"),
        ("bash -o errexit -O extglob -c 'train {x}'", "reads as code"),
        ('"${SHELL:-bash}" -c "train {x}"', "reads as code"),
        ('"$(which bash)" -c "train {x}"', "reads as code"),
        ("echo {x} | bash -euo pipefail", "reads as code"),
        ("command -p eval {x}", "reads as code"),
        ("coproc C { eval {x}; }", "reads as code"),
        ("function f { eval {x}; }; f", "reads as code"),
        ("2>&1 eval {x}", "reads as code"),
        ("{log}>f eval {x}", "reads as code"),
        ("echo {x} | bash 2>&1 | cat", "reads as code"),
        ("bash 0<<EOF\n{x}\nEOF", "reads as code"),
        ("{ bash; } <<EOF\n{x}\nEOF", "reads as code"),
        ("( cd /x && bash ) <<EOF\n{x}\nEOF", "reads as code"),
        ("if true; then sh; fi <<EOF\n{x}\nEOF", "reads as code"),
        ("while :; do sh; done <<< {x}", "reads as code"),
        ("echo {x} | ( sh )", "reads as code"),
        ("echo {x} | { cat | sh; }", "reads as code"),
        ("{ echo {x}; } | sh", "reads as code"),
        ("if true; then echo {x}; fi | sh", "reads as code"),
        ("for i in 1 2; do echo {x}; done | sh", "reads as code"),
        ("case a in a) echo {x};; esac | sh", "reads as code"),
        ("cat <<EOF | tee f |\n{x}\nEOF\nsh", "reads as code"),
        ("yes {x} | head -1 | sh", "reads as code"),
        ("bash < <(echo {x})", "reads as code"),
        ("cat < <(echo {x}) | bash", "reads as code"),
        ("cat <(echo {x}) | bash", "reads as code"),
        ('bash <<< "$(echo {x})"', "reads as code"),
        ("bash /dev/fd/0 <<< {x}", "reads as code"),
        ("echo {x} | xargs sh -c", "reads as code"),
        ("echo {x} | xargs -I% sh -c 'train %'", "reads as code"),
        ("sed --expression 's/a/{x}/' file", "reads as code"),
        ("sed --expression='s/a/{x}/' file", "reads as code"),
        ("sed -f - file <<EOF\n{x}\nEOF", "reads as code"),
        ("gawk -e '/{x}/' file", "reads as code"),
        ("script -qc 'train {x}' log", "reads as code"),
        ("script --command='train {x}' log", "reads as code"),
        ("su me -c'train {x}'", "reads as code"),
        ("env -S 'train {x}'", "reads as code"),
        ("env -i --split-string='train {x}'", "reads as code"),
        ("compgen -W {x}", "reads as code"),
        ('env "BASH_ENV={x}" bash train.sh', "reads as code"),
        ("nohup env BASH_ENV={x} bash train.sh", "reads as code"),
        ('export "PS4={x}"', "reads as code"),
        ("[[ -n a && {x} -eq 1 ]]", "no whole number"),
        ("[[ -n a && 1 -eq {x} ]]", "no whole number"),
        ("[[ ( {x} -eq 1 ) ]]", "no whole number"),
        ("if [[ -d / &&\n {x} -gt 1 ]]; then :; fi", "no whole number"),
        ("[[ $v =~ (a|b) || {x} -le 1 ]]", "no whole number"),
        ("coproc [[ -n a && {x} -eq 1 ]]", "no whole number"),
        ("[[ -n a && -v {x} ]]", "name of a variable"),
        ("[[ ( ! -v a[{x}] ) ]]", "name of a variable"),
        ("[[ a || eval {x} ]]", "reads as code"),
        ("[[ a; echo {x} | sh; ]]", "reads as code"),
        ("a[1 + {x}]=1", "no whole number"),
        ("a[b[{x}]]=1", "no whole number"),
        ("a=([1 + {x}]=1)", "no whole number"),
        ("eval {x}>log", "reads as code"),
        ("echo {x} > >(sh)", "reads as code"),
        ("echo a > >(sh) {x}", "reads as code"),
        ("echo {x} | tee >(cat | sh)", "reads as code"),
        ("exec > >(sh); echo {x}", "reads as code"),
        ("exec <<< {x}; sh", "reads as code"),
        ("coproc sh; echo {x} >&${COPROC[1]}", "reads as code"),
        ("f() { sh; }; echo {x} | f", "reads as code"),
        ("f() { echo {x}; }; f | sh", "reads as code"),
        ('f() { echo {x}; }; eval "$(f)"', "reads as code"),
        ("mkfifo p; sh < p & echo {x} > p", "reads as code"),
        ("bash <<EOF\n$(echo {x})\nEOF", "reads as code"),
        ("echo {x} | xargs sh", "reads as code"),
        ("sbatch <<EOF\n#!/bin/sh\ntrain {x}\nEOF", "reads as code"),
        ("make lr={x}", "reads as code"),
        ("perl -M{x} f", "reads as code"),
        ("wait -n -p {x}", "name of a variable"),
        ("printf -va[{x}] 1", "name of a variable"),
        ("declare -ai q=({x})", "no whole number"),
        ("declare -i n; n={x}", "no whole number"),
        ("declare -i n; n+={x}", "no whole number"),
        ("declare -i n; n=(1 {x})", "no whole number"),
        ("declare -i n; read n <<< {x}", "no whole number"),
        ("declare -i n; echo {x} | while read n; do :; done", "no whole number"),
        ("declare -i n; printf -v n %s {x}", "no whole number"),
        ("declare -i n; for n in 1 {x}; do :; done", "no whole number"),
        ("declare -i n; export n={x}", "no whole number"),
        ("typeset -i $names; n={x}", "no whole number"),
        ("f() { local -i n; n={x}; }; f", "no whole number"),
        ("declare -n r; r={x}", "name of a variable"),
        ("RANDOM={x}", "no whole number"),
        ("for OPTIND in {x}; do :; done", "no whole number"),
        ("OPTIND=$(echo {x})", "reads as code"),
        ("for PS4 in {x}; do :; done; set -x; :", "reads as code"),
        ("read PS4 <<< {x}", "reads as code"),
    ],
)
def test_a_place_that_cannot_take_a_value_is_refused_and_shown(command, told):
    with pytest.raises(SpecError) as error:
        with_arguments(command, {"x": "$(touch X)"}, ())
    assert told in str(error.value)
    assert "{x}" in str(error.value).partition(": ")[2]
    assert "touch" not in str(error.value)


@pytest.mark.parametrize(
    "command",
    [
        "train.py --mode eval --data {x}",
        "python3 train.py -c {x}",
        "python3 -m train -c {x}",
        "bash train.sh -c {x}",
        "python3 train.py {x} <<EOF\n{x}\nEOF",
        "sed -n 1p {x}",
        "awk -f prog.awk {x}",
        "awk '{print}' {x}",
        "xargs -n1 train {x}",
        "declare -x n={x}",
        "a=1 b={x}",
        "local n={x}",
        "[[ {x} == a ]] && [ {x} -eq 1 ]",
        "train {x} > {x}",
        "cat {x} | sh",
        'bash -c "$(cat {x})"',
        'bash -c \'train "$1"\' _ "$(echo {x})"',
        "python3 train.py <(echo {x})",
        "train --env ENV={x}",
        "bash -euo pipefail train.sh -c {x}",
        "bash -euo pipefail -c 'train \"$1\"' _ {x}",
        "{ cat; } <<EOF\n{x}\nEOF",
        "{ curl a | sh; }; cat <<EOF | tee {x}\n{x}\nEOF",
        "if sh check.sh; then train {x}; fi 2>&1 | tee log",
        "(cd /x && train {x}) 2> {x}",
        "echo {x} | xargs -n1 train",
        "echo {x} | xargs sh -c 'train \"$1\"' _",
        'function f { train "$1"; }; f {x}',
        "time -p train {x}",
        "env -u A B={x} train",
        '[[ "{x}" == y ]] && train',
        "[[ -n {x} && $n -eq 1 ]]",
        "[[ {x} =~ ^(a|b)$ ]]",
        "if [ {x} -gt 1 ]; then train; fi",
        "[ -n {x} ] && test {x} = a",
        "for f in {x}; do train; done",
        "export N={x}",
        "python train.py --lr {x} && echo done",
        "cd {x} || exit 1",
        "declare -i n; d={x} train",
        "declare -a files=(a {x})",
        "f() { local v=$1; train $v; }; f {x}",
        "exec > >(tee log) 2>&1; train {x}",
        "exec train {x}",
        "torchrun train.py --mode eval --data {x}",
        "printf '%s\n' {x}",
    ],
)
def test_a_usual_place_takes_any_value(command):
    with_arguments(command, {"x": "$(touch X)"}, ())


@pytest.mark.parametrize("shell", SHELLS, ids="-".join)
def test_a_plain_value_stands_in_a_script_of_another_shell(tmp_path: Path, shell):
    command = 'sh -c \'printf "%s," {x} $(( {n} * 2 ))\'; printf %s "$(( {n} * 2 ))"'
    text = fill_template(with_arguments(command, {"x": "/data/a-1_b.yaml", "n": 21}, ()), {})
    done = subprocess.run([*shell, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "/data/a-1_b.yaml,42,42"


def test_a_path_that_only_the_job_knows_has_to_be_plain_in_a_script_of_another_shell():
    template = with_arguments("bash -c 'cat {x}'", {"x": Hole("x", "")}, ())
    assert "/data/x.yaml" in fill_template(template, {"x": "/data/x.yaml"})
    with pytest.raises(ValueError, match="touch"):
        fill_template(template, {"x": "/data/$(touch X)"})


@pytest.mark.parametrize("shell", SHELLS, ids="-".join)
def test_the_command_finds_no_variable_of_ours_in_its_environment(shell):
    text = fill_template(
        with_arguments("env | grep -c ^TAO_ARG_; show {x}", {"x": "hunter2"}, ()), {}
    )
    env = {"PATH": os.environ["PATH"], "TAO_ARG_1": "inherited"}
    done = subprocess.run([*shell, "-c", text], env=env, capture_output=True, text=True)
    assert done.stdout.splitlines()[0] == "0"


def test_a_variable_that_the_command_uses_itself_is_left_to_it():
    text = fill_template(
        with_arguments('TAO_ARG_1=mine; echo "$TAO_ARG_1" {x}', {"x": "a b"}, ()), {}
    )
    assert (
        subprocess.run(["bash", "-c", text], capture_output=True, text=True).stdout == "mine a b\n"
    )


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(st.binary(min_size=24, max_size=24))
def test_a_command_of_random_parts_runs_no_value(data: bytes):
    """`make fuzz` searches for longer."""
    run_hostile_command(data)


@pytest.mark.slow
@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(["bash", "-c", "eval", "a=", "sed", "-e", "echo", "export", "command", "[[", "]]", "<<E",
                              "E", "\n", "|", "$(", ")", "((", "case", "in", "esac", "{x}", "'{x}'", "a{x}", "x={x}"]),
             max_size=9).map(" ".join)
    | st.text("'\"\\ \n#<-EOF{}$`|;&()[]x=", max_size=40).map(lambda text: text.replace("x", "{x}"))
)  # fmt: skip
def test_a_command_of_any_shape_is_read_to_its_end(command):
    """Refused or built: never a traceback, and the value is nowhere but in its variable."""
    try:
        text = fill_template(with_arguments(command, {"x": "$(touch X)"}, ()), {})
    except SpecError:
        return
    assert text.count("touch") <= 1


@pytest.mark.parametrize("args", [{"lr": "a\0b"}, {"lr": ["a", "b\0"]}, {"l\0r": "a"}])
def test_a_value_that_no_program_can_be_given_is_refused_by_its_name(args: dict[str, Tree]) -> None:
    with pytest.raises(SpecError, match=r"args\.l.?r holds a NUL character"):
        with_arguments("echo {lr}", args, [])


@pytest.mark.parametrize(
    ("command", "form"),
    [
        ("bash -c 'train {x}'", "bash -c 'train \"$1\"' _ {x}"),
        ("env A=1 python3 -c 'train({x})'", "python3 -c 'import sys; train(sys.argv[1])' {x}"),
        ("awk '{{print {x}}}' f", "awk -v x={x} '{print x}'"),
        ("bash <<E\ntrain {x}\nE", "bash -s {x} <<'EOF', and \"$1\" in its lines"),
        ("python3 - <<E\ntrain({x})\nE", "python3 - {x} <<'EOF', and sys.argv[1] in its lines"),
    ],
)
def test_a_refusal_shows_a_form_that_the_program_takes(command: str, form: str) -> None:
    with pytest.raises(SpecError) as refused:
        with_arguments(command, {"x": "two words; id"}, ())
    assert refused.value.next.endswith(form)


@pytest.mark.parametrize(
    "command", ["python3 {x}", "sed p {x}", "printf {x} a", "[ {x} b ]", "env {x} train"]
)
def test_a_value_is_no_option_of_a_program_that_could_run_it(command: str) -> None:
    with_arguments(command, {"x": "a b"}, ())
    with_arguments(command.replace("{x}", "-- {x}"), {"x": "a b"}, ())
    with pytest.raises(SpecError, match="looks for its options"):
        with_arguments(command, {"x": "-va[$(touch X)]"}, ())


def test_a_list_is_no_option_of_test() -> None:
    with pytest.raises(SpecError, match="looks for its options"):
        with_arguments("[ {x} ]", {"x": ["-v", "a[$(touch X)]"]}, ())


@pytest.mark.parametrize("command", ["eval train", "ssh host train", "true && eval train"])
def test_an_appended_argument_is_refused_where_it_would_be_run(command: str) -> None:
    with_arguments(command, {"lr": "0.1"}, ())
    with pytest.raises(SpecError, match=r"train --lr \{lr\}"):
        with_arguments(command, {"lr": "$(touch X)"}, ())


def test_arithmetic_takes_whole_numbers_and_its_refusal_says_what_to_do() -> None:
    with_arguments("N=$(({epochs}*2)); train $N", {"epochs": 3}, ())
    with pytest.raises(SpecError, match="calculate before"):
        with_arguments("N=$(({epochs}*2)); train $N", {"epochs": "3 + 1"}, ())

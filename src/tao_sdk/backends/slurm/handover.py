"""Handover: the scripts that start, find, end and remove an attempt on the login node, and how their answers are read.

Each is one exec, and each may run again after a lost reply. Pure.

The file `<job_dir>/attempts/<n>/store` says that an attempt was begun; `slurm_id` is written beside it once SLURM has answered.
Only the script that could create the file `<n>.lock` submits, and it removes the lock when nothing was submitted. Where `store`
is there without `slurm_id` SLURM is first asked for a job of that name.

On a busy login node starting a program takes longer than the program runs: where the shell can do something, it does.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tao_sdk.backends.slurm import parse
from tao_sdk.backends.slurm.data import Wanted
from tao_sdk.backends.slurm.paths import JobHome, job_name, sbatch_words
from tao_sdk.backends.slurm.request import Decisions
from tao_sdk.model.plan import Attempt

SUBMIT_SECONDS = 180  # after which the client gives up
STALE_LOCK = SUBMIT_SECONDS + 20  # none of a submit's steps lasts that long: the script of this lock has died
HANDING_OVER = 10  # seconds that a cancel waits for a submit under way
LOOK_BACK = "now-60days"  # how far sacct looks for a name: a job waits and runs no longer between two looks

# What SLURM's programs say when the controller did not answer: whether it took the job is then not known.
NO_ANSWER = (
    "timed out|Unable to contact|Connection refused|connect failure|Zero Bytes|Transport endpoint|"
    "Communication connection"
)

# What a user's shell may set to see less of his jobs, or to be asked before he ends one. A job that squeue does not show for
# that would be taken for gone.
HIDING = (
    "SQUEUE_ACCOUNT SQUEUE_LICENSES SQUEUE_NAMES SQUEUE_PARTITION SQUEUE_QOS SQUEUE_STATES SQUEUE_USERS SCANCEL_ACCOUNT "
    "SCANCEL_BATCH SCANCEL_INTERACTIVE SCANCEL_NAME SCANCEL_PARTITION SCANCEL_QOS SCANCEL_STATE SCANCEL_USER SCANCEL_WCKEY"
)
KEEPING_UMASK = f"""locale=${{LC_ALL-}} zone=${{TZ-}}
export LC_ALL=C TZ=UTC; unset {HIDING}; trap '' HUP PIPE INT"""
PREAMBLE = f"{KEEPING_UMASK}; export SLURM_TIME_FORMAT=standard; umask 077"
# sbatch hands its environment and umask to the job: the locale and time zone that we read SLURM's words in are put back before.
AS_THE_USER = 'LC_ALL=$locale TZ=$zone; [ -n "$LC_ALL" ] || unset LC_ALL; [ -n "$TZ" ] || unset TZ'

# What a user's shell may set for sbatch counts more than a script's directives. What a plan decides is not left to it; what a
# plan leaves open is.
DECIDED = (
    "SBATCH_ARRAY_INX SBATCH_EXCLUSIVE SBATCH_GPUS SBATCH_GPUS_PER_NODE SBATCH_GPUS_PER_TASK SBATCH_GRES SBATCH_MEM_PER_CPU "
    "SBATCH_MEM_PER_GPU SBATCH_MEM_PER_NODE SBATCH_NO_REQUEUE SBATCH_PARTITION SBATCH_REQUEUE SBATCH_TIMELIMIT SBATCH_WAIT "
    "SBATCH_WAIT_ALL_NODES"
)
LEFT_OPEN = ("account", "constraint", "qos", "reservation")  # unless it names them

READING = f"""read_line() {{ line=; [ ! -s "$1" ] || read -r line <"$1" || :; }}
is_strangers() {{ read_line "$a/store"; [ -n "$line" ] && [ "$line" != "$store" ]; }}
is_stale() {{ [ $(( $(date +%s) - $(stat -c %Y "$k" 2>/dev/null || date +%s) )) -gt {STALE_LOCK} ]; }}"""

# What a site's programs say beside their answers (greetings, warnings) is no part of these. `slurm` runs a program and prints
# its output, or its words where it fails; `find_id` sets $found to the last line of $1 that is a SLURM id, alone or before a `;`.
ANSWERS = """slurm() { { words=$("$@" 2>&1 >&3); } 3>&1 || { set -- $?; echo "$words"; return $1; }; }
find_id() {
  found=
  while read -r each; do case ${each%%;*} in ''|*[!0-9]*) ;; *) found=$each ;; esac; done <<END
$1
END
}"""

# Prints the attempt's SLURM id, or nothing when neither squeue nor sacct has such a name; fails with SLURM's words.
LOOKUP = """lookup() {
  seen=$(slurm timeout 25 squeue --noheader --states=all --user="$(id -un)" --name="$name" --format=%i) || {
    echo "$seen" | tail -n 1; return 1; }
  find_id "$seen"
  if [ -z "$found" ] && [ $accounting = yes ]; then
    seen=$(slurm timeout 25 sacct -X -n -P --user="$(id -un)" --name="$name" --starttime=$since --format=JobIDRaw) || {
      echo "$seen" | tail -n 1; return 1; }
    find_id "$seen"
  fi
  echo "$found"
}"""


@dataclass(frozen=True)
class Reply:
    """The first word and the rest of what a script said last; `missing` are the numbers of paths that are not there."""

    word: str
    text: str = ""
    missing: tuple[int, ...] = ()


def read_reply(text: str) -> Reply:
    lines = text.splitlines()
    missing = tuple(int(line.split()[1]) for line in lines if line.startswith("MISSING "))
    said = [index for index, line in enumerate(lines) if line.split(" ", 1)[0] in WORDS]
    if not said:
        return Reply("MISSING" if missing else "", text.strip(), missing)
    word, _, rest = lines[said[-1]].partition(" ")
    return Reply(word, "\n".join([rest, *lines[said[-1] + 1 :]]).strip(), missing)


ENDED = "CANCELLED*|COMPLETED|FAILED|TIMEOUT|NODE_FAIL|PREEMPTED|BOOT_FAIL|DEADLINE|OUT_OF_MEMORY|REVOKED"
WORDS = ("ID", "NONE", "BEGUN", "STRANGER", "REFUSED", "DOUBT", "ALIVE", "NOROOM", "UNSAFE", "DENIED")


def names(home: JobHome, attempt: Attempt, preamble: str = PREAMBLE) -> str:
    """How every script begins: its variables, and the functions that more than one of them needs."""
    at = home.paths(attempt)
    values = {
        "base": at.base, "job": at.job, "n": str(attempt.number), "a": at.attempt, "logs": at.logs, "k": f"{at.attempt}.lock",
        "name": job_name(attempt), "store": attempt.store_id, "accounting": "yes" if home.accounting else "no",
        "since": LOOK_BACK,
    }  # fmt: skip
    return "\n".join(
        [preamble, " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items()), READING, ANSWERS, LOOKUP]
    )


UNPACKING = "tar xzmf -"  # what comes on stdin; gzip notices when its end is missing


def writing(files: Mapping[str, bytes]) -> str:
    """Files that are part of the script, written by the shell itself. A script that was cut short is not run at all."""
    texts = {name: content.decode("utf-8", "surrogateescape") for name, content in files.items()}
    return " &&\n".join(f"printf %s {shlex.quote(text)} >{shlex.quote(name)}" for name, text in texts.items())


# Submitting: the functions of the script, then its steps, in the order in which they run. $me is who we are in the lock.

ME = 'me="$$-${SSH_CONNECTION-}"'

# What somebody else could have put into these folders would be run as ours. The base may be a team's, `jobs` below it may not.
SAFE_FOLDERS = """unsafe() { echo "UNSAFE $1: $2"; exit 0; }
check_folder() {
  [ -e "$1" ] || return 0
  seen=$(stat -L -c '%u %a' "$1" 2>&1) || { said=$seen; noroom; }
  [ -O "$1" ] || [ "$2:${seen%% *}" = base:0 ] || unsafe "$1" "it belongs to another user"
  case $2:${seen##* } in
    base:[1357]???) ;;
    *[2367]) unsafe "$1" "anybody may write to it" ;;
    jobs:*[2367]?) unsafe "$1" "its group may write to it" ;;
  esac
}
check_folders() { check_folder "$base" base; check_folder "$base/jobs" jobs; }"""

NO_ROOM = """noroom() { echo "NOROOM $said"; exit 0; }"""


def lock(folders: Iterable[str]) -> str:
    """A function that makes the attempt's folders, takes its lock, and fails where another submit has it.

    The attempt's own comes last: where it is, the others are, also when a submit died between two of them.
    """
    made = " ".join(f'"$job"/{shlex.quote(folder)}' for folder in folders)
    return f"""lock() {{
  [ -d "$a" ] || said=$(umask 077; mkdir -p "$logs" {made} "$a" 2>&1) || noroom
  [ -O "$base/jobs" ] || unsafe "$base/jobs" "it belongs to another user"
  set -C; echo "$me" 2>/dev/null >"$k"; set +C
  owns
}}
owns() {{ read_line "$k"; [ "$line" = "$me" ]; }}"""


# Before each step that takes its time, and before sbatch. A step that lasted too long, a connection that was dead for example,
# has lost its lock to another submit: whatever is in the folder is that one's.
RENEW = """renew() { owns && echo "$me" >"$k" || { echo "DOUBT Another submit of it is under way."; exit 0; }; }"""

# Whoever holds the lock and has no job at the end gives the lock back, and removes what it has made unless that was staged whole.
UNLOCK = """discard() {
  owns || return 0
  if [ "$n" = 1 ]; then cd / && rm -rf "$job"; else cd / && rm -rf "$a" "$logs"; fi
}
unlock() {
  owns && [ ! -s "$a/slurm_id" ] || return 0
  [ -s "$a/store" ] || discard
  rm -f "$k"
}
trap unlock EXIT"""

# Ends the script where the attempt is another store's, or has its SLURM job already.
KNOWN = """known() {
  is_strangers && { echo STRANGER; exit 0; }
  read_line "$a/slurm_id"; [ -z "$line" ] || { echo "ID $line"; exit 0; }
}"""


def path_checks(checks: Sequence[Wanted]) -> str:
    """Say which of the paths that the job needs are not there, by their numbers, and end. Not asked again once it is staged."""
    tests = "\n".join(
        f"  [ -e {shlex.quote(each.path)} ] || {{ echo MISSING {number}; lacks=yes; }}"
        for number, each in enumerate(checks)
    )
    return f"""if [ ! -s "$a/store" ]; then
  lacks=
{tests}
  [ -z "$lacks" ] || exit 0
fi"""


# A lock older than a step lasts was left by a submit that died, and is removed; so is one that stays empty: there was no room for
# its owner's name.
WAIT_FOR_THE_LOCK = """tries=0
until lock; do
  known
  is_stale && rm -f "$k"
  [ $tries -gt 10 ] && [ -e "$k" ] && [ ! -s "$k" ] && { rm -f "$k"; said="$k cannot be written."; noroom; }
  tries=$((tries + 1)); [ $tries -gt 300 ] && { echo "DOUBT Another submit of it is under way."; exit 0; }
  sleep 0.1
done"""

# A submit before this one may have reached SLURM and died before it wrote down the id: then $id is found by the job's name.
LOOK_BY_NAME = """id=
[ ! -s "$a/store" ] || id=$(lookup) || { echo "DOUBT $id"; exit 0; }"""

# Two attempts of a job never run at once.
SEE_THE_ATTEMPT_BEFORE_ENDED = """read_line "$job/attempts/$((n - 1))/slurm_id"; before=$line
if [ -z "$id" ] && [ -n "$before" ]; then
  alive=$(slurm timeout 25 squeue --noheader --jobs="$before" --format='%A;%T') || case $alive in
    *"Invalid job id"*) alive= ;; *) echo "DOUBT $alive"; exit 0 ;; esac
  find_id "$alive"
  [ -z "$found" ] || { echo "ALIVE $before ${found#*;}"; exit 0; }
fi"""


def stage_and_sbatch(decisions: Decisions, attempt: Attempt, stage: str) -> str:
    """Unless it was found by its name: fill the folders and call sbatch, which sets $id."""
    *sbatch, script = map(shlex.quote, sbatch_words(decisions.home.paths(attempt), attempt))
    image = decisions.image.prepare if decisions.image else ":"
    results = shlex.quote(f"{decisions.results_root}/{attempt.job_id}")
    named = (f" SBATCH_{name.upper()}" for name in LEFT_OPEN if name in decisions.directives)
    return f"""if [ -z "$id" ]; then
  [ -d {results} ] || said=$(umask 022; mkdir -p {results} 2>&1) || noroom
  renew
  said=$(exec 2>&1; umask 077; cd "$job" && {stage}) || {{
    discard
    case $said in *nexpected*) echo "DOUBT The files did not arrive whole: $said"; exit 0 ;; *) noroom ;; esac
  }}
  renew
  cd "$a" || exit 1
  unset {DECIDED}{"".join(named)}
  after=
  {image}
  said=$({AS_THE_USER}; timeout 90 {" ".join(sbatch)} $after {script} 2>"$a/sbatch.err"); code=$?
  if [ $code -ne 0 ]; then
    said=$(cat "$a/sbatch.err")
    if [ $code = 124 ] || echo "$said" | grep -qE '{NO_ANSWER}'; then echo "DOUBT $said"; exit 0; fi
    discard; echo "REFUSED $said"; exit 0
  fi
  find_id "$said"; id=$found
  [ -n "$id" ] || {{ echo "DOUBT $said"; exit 0; }}
fi"""


# sbatch says "id;cluster" where there are several clusters.
KEEP_THE_ID = """id=${id%%;*}
printf '%s\\n' "$id" > "$a/slurm_id"
ln -sfn "attempt-$n" "$job/slurm-logs/$name-$id"
echo "ID $id"
"""


def submit(decisions: Decisions, attempt: Attempt, folders: Iterable[str], stage: str) -> str:
    """Have `stage` fill the folders of the job and hand it to SLURM, unless that was done before: then say which job it is."""
    others = (folder for folder in folders if folder != f"attempts/{attempt.number}")
    functions = [NO_ROOM, SAFE_FOLDERS, lock(others), RENEW, UNLOCK, KNOWN]
    steps = [
        "check_folders",
        "known",
        path_checks(decisions.checks),
        WAIT_FOR_THE_LOCK,
        "known",  # again: it may have been handed over while the lock was waited for
        LOOK_BY_NAME,
        SEE_THE_ATTEMPT_BEFORE_ENDED,
        stage_and_sbatch(decisions, attempt, stage),
        KEEP_THE_ID,
    ]
    return "\n".join([names(decisions.home, attempt, KEEPING_UMASK), ME, *functions, *steps])


def find(home: JobHome, attempt: Attempt) -> str:
    """Says NONE only when the attempt's folder, squeue and, where there is accounting, sacct have all answered."""
    return f"""{names(home, attempt)}
said=$(stat "$a" 2>&1 >/dev/null) || case $said in *"No such file"*) ;; *) echo "DOUBT $said"; exit 0 ;; esac
if is_strangers; then echo STRANGER; exit 0; fi
read_line "$a/slurm_id"; [ -z "$line" ] || {{ echo "ID $line"; exit 0; }}
id=$(lookup) || {{ echo "DOUBT $id"; exit 0; }}
if [ -n "$id" ] && [ -s "$a/store" ]; then echo "ID $id"; exit 0; fi
if [ -n "$id" ]; then
  tag=$(timeout 25 squeue --noheader --states=all --jobs="$id" --format=%k 2>/dev/null)
  case $tag in "tao:$store") echo "ID $id"; exit 0 ;; tao:*) echo STRANGER; exit 0 ;; esac
  echo NONE; exit 0
fi
if [ -e "$k" ]; then echo BEGUN; else echo NONE; fi
"""


def cancel(home: JobHome, attempt: Attempt, job_id: str, seconds: float) -> str:
    """End an attempt's SLURM job and wait for that; then `$id`, squeue's row `$row` and its state `$s` are what was seen.

    $s is empty when squeue does not know the job, or knows another under its id: ids are used again, names are not. Where
    SLURM refuses, the script says DENIED and SLURM's words. Without an id the job is looked up, as `find` does.
    """
    return f"""{names(home, attempt)}
id={shlex.quote(job_id)}
if [ -z "$id" ]; then
  tries=0
  until read_line "$a/slurm_id"; id=$line; [ -n "$id" ] || [ ! -e "$k" ]; do
    if is_stale; then rm -f "$k"; continue; fi
    tries=$((tries + 1)); [ $tries -gt {HANDING_OVER * 10} ] && {{ echo "DOUBT The job is being handed over."; exit 0; }}
    sleep 0.1
  done
  [ -n "$id" ] || id=$(lookup) || {{ echo "DOUBT $id"; exit 0; }}
  id=${{id:-0}}
fi
state() {{
  seen=$(slurm {parse.squeue_command(["$id"])}) || case $seen in
    *"Invalid job id"*) seen= ;; *) echo "DOUBT $seen"; exit 0 ;; esac
  row=
  while read -r each; do case $each in "$id|"*"|$name") row=$each ;; esac; done <<END
$seen
END
  s=${{row#*|}}; s=${{s%%|*}}
}}
over() {{ case $s in ''|{ENDED}) return 0 ;; esac; return 1; }}
state
[ -z "$row" ] || said=$(timeout 60 scancel $id 2>&1) || {{
  case $said in
    *"Invalid job id"*|*"already completing or completed"*) ;;
    *denied*) echo "DENIED $said"; exit 0 ;;
    *) echo "DOUBT $said"; exit 0 ;;
  esac
}}
until=$(( $(date +%s) + {max(1, round(seconds))} )) pause=0.1
while state; ! over; do
  [ $(date +%s) -gt $until ] && break
  sleep $pause; pause=0.5
done
"""


def release(home: JobHome, attempt: Attempt) -> str:
    """Remove what an attempt left but its results; the job's folder goes with the last one."""
    return f"""{names(home, attempt)}
is_strangers && exit 0
rm -rf "$a" "$k" "$logs"
for link in "$job/slurm-logs/$name-"*; do [ -L "$link" ] && rm -f "$link"; done
rmdir "$job/slurm-logs" "$job/attempts" 2>/dev/null
if [ ! -d "$job/attempts" ]; then rm -rf "$job"; fi
[ ! -e "$a" ]
"""

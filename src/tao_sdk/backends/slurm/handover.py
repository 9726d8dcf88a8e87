"""Handover: the scripts that start, find, end and remove an attempt on the login node, and how their answers are read.

Each is one exec, and each may run again after a lost reply. Pure.

The marker of an attempt is its folder `<job_dir>/attempts/<n>`; in it `slurm_id` once SLURM has answered. Who makes the
folder `<n>.lock` is the one who submits; whoever finds a marker without an id asks SLURM for the job by its name first.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tao_sdk.backends.slurm import parse
from tao_sdk.backends.slurm.render import Paths, job_name, sbatch_words
from tao_sdk.model.plan import Attempt

STALE_LOCK = 90  # seconds: a submit takes a few; one whose script has died leaves its lock
HANDING_OVER = 10  # seconds that a cancel waits for a submit under way
LOOK_BACK = "now-60days"  # how far sacct looks for a name: a job waits and runs no longer between two looks

# What SLURM's programs say when the controller did not answer: whether it took the job is then not known.
NO_ANSWER = (
    "timed out|Unable to contact|Connection refused|connect failure|Zero Bytes|Transport endpoint|"
    "Communication connection"
)

PREAMBLE = """mask=$(umask) locale=${LC_ALL-} zone=${TZ-}
export LC_ALL=C TZ=UTC; umask 077; trap '' HUP PIPE INT"""
# The job is not to inherit what our own looking needs.
AS_THE_USER = 'umask $mask; LC_ALL=$locale TZ=$zone; [ -n "$LC_ALL" ] || unset LC_ALL; [ -n "$TZ" ] || unset TZ'

# Prints the attempt's SLURM id, or nothing when neither squeue nor sacct has such a name; fails with SLURM's words.
LOOKUP = """lookup() {
  seen=$(timeout 25 squeue --noheader --states=all --user="$(id -un)" --name="$name" --format=%i 2>&1) || {
    echo "$seen" | tail -n 1; return 1; }
  if [ -z "$seen" ] && [ $accounting = yes ]; then
    seen=$(timeout 25 sacct -X -n -P --user="$(id -un)" --name="$name" --starttime=$since --format=JobIDRaw 2>&1) || {
      echo "$seen" | tail -n 1; return 1; }
  fi
  echo "$seen" | tail -n 1
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
WORDS = ("ID", "NONE", "BEGUN", "STRANGER", "REFUSED", "DOUBT", "ALIVE", "NOROOM", "DENIED")


def names(of: Mapping[str, Any], attempt: Attempt) -> str:
    """The variables of every script."""
    at = Paths.of(of, attempt)
    values = {
        "base": at.base, "job": at.job, "n": str(attempt.number), "a": at.attempt, "logs": at.logs, "k": f"{at.attempt}.lock",
        "name": job_name(attempt), "store": attempt.store_id, "accounting": "yes" if of["accounting"] else "no",
        "since": LOOK_BACK,
    }  # fmt: skip
    return "\n".join([PREAMBLE, " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items()), LOOKUP])


def submit(of: Mapping[str, Any], attempt: Attempt) -> str:
    """Stage what comes on stdin and hand it to SLURM, unless that was done before: then say which job it is."""
    at = Paths.of(of, attempt)
    script = at.script
    checks = "\n".join(
        f"  [ -e {shlex.quote(path)} ] || {{ echo MISSING {i}; lacks=yes; }}"
        for i, (path, _) in enumerate(of["checks"])
    )
    sbatch = " ".join(map(shlex.quote, sbatch_words(at, attempt)[:-1]))
    image: str = of["image"]["prepare"] if of["image"] else ":"
    results = shlex.quote(f"{of['results_root']}/{attempt.job_id}")
    return f"""{names(of, attempt)}
t=$job/.stage.$n.$$
said=$(mkdir -p "$job/attempts" "$t" 2>&1) || {{ echo "NOROOM $said"; exit 0; }}
trap 'rm -rf "$t"; rmdir "$k" "$job/attempts" "$job" 2>/dev/null' EXIT
said=$(tar xzmf - -C "$t" 2>&1) || {{ echo "DOUBT The files did not arrive whole: $said"; exit 0; }}
known() {{
  [ -s "$a/slurm_id" ] || return 1
  if [ "$(cat "$a/store")" = "$store" ]; then echo "ID $(cat "$a/slurm_id")"; else echo STRANGER; fi
}}
tries=0
until mkdir "$k" 2>/dev/null; do
  known && exit 0
  age=$(( $(date +%s) - $(stat -c %Y "$k" 2>/dev/null || date +%s) ))
  [ $age -gt {STALE_LOCK} ] && rmdir "$k" 2>/dev/null
  tries=$((tries + 1)); [ $tries -gt 300 ] && {{ echo "DOUBT Another submit of it is under way."; exit 0; }}
  sleep 0.1
done
known && exit 0
if [ -e "$a/store" ] && [ "$(cat "$a/store")" != "$store" ]; then echo STRANGER; exit 0; fi
if [ -d "$a" ]; then
  id=$(lookup) || {{ echo "DOUBT $id"; exit 0; }}
else
  id= lacks=
{checks}
  [ -z "$lacks" ] || exit 0
fi
before=$(cat "$job/attempts/$((n - 1))/slurm_id" 2>/dev/null)
if [ -z "$id" ] && [ -n "$before" ]; then
  alive=$(timeout 25 squeue --noheader --jobs="$before" --format=%T 2>&1) || case $alive in
    *"Invalid job id"*) alive= ;; *) echo "DOUBT $alive"; exit 0 ;; esac
  [ -z "$alive" ] || {{ echo "ALIVE $before $alive"; exit 0; }}
fi
if [ -z "$id" ]; then
  said=$({{ (umask 022; mkdir -p {results}) && mkdir -p "$a" "$logs"; }} 2>&1) || {{ echo "NOROOM $said"; exit 0; }}
  said=$(cd "$t" && for each in specs env meta sbatch; do
    mkdir -p "$job/$each" && mv -f $each/* "$job/$each/" || exit 1; done 2>&1) &&
    said=$(mv -f "$t/attempts/$n"/* "$a"/ 2>&1) || {{ echo "NOROOM $said"; exit 0; }}
  cd "$a" || exit 1
  after=
  {image}
  id=$({AS_THE_USER}; timeout 90 {sbatch} $after {shlex.quote(script)} 2>"$a/sbatch.err"); code=$?
  if [ $code -ne 0 ]; then
    said=$(cat "$a/sbatch.err")
    if [ $code = 124 ] || echo "$said" | grep -qE '{NO_ANSWER}'; then echo "DOUBT $said"; exit 0; fi
    if [ "$n" = 1 ]; then cd / && rm -rf "$job"; else cd / && rm -rf "$a" "$logs"; fi
    echo "REFUSED $said"; exit 0
  fi
fi
id=${{id%%;*}}
printf '%s\\n' "$id" > "$a/slurm_id.new" && mv -f "$a/slurm_id.new" "$a/slurm_id"
ln -sfn "attempt-$n" "$job/slurm-logs/$name-$id"
echo "ID $id"
"""


def find(of: Mapping[str, Any], attempt: Attempt) -> str:
    """NONE only when the marker's folder, squeue and, where there is one, sacct have all answered."""
    return f"""{names(of, attempt)}
said=$(stat "$a" 2>&1 >/dev/null) || case $said in *"No such file"*) ;; *) echo "DOUBT $said"; exit 0 ;; esac
if [ -e "$a/store" ] && [ "$(cat "$a/store")" != "$store" ]; then echo STRANGER; exit 0; fi
if [ -s "$a/slurm_id" ]; then echo "ID $(cat "$a/slurm_id")"; exit 0; fi
id=$(lookup) || {{ echo "DOUBT $id"; exit 0; }}
if [ -n "$id" ] && [ -d "$a" ]; then echo "ID $id"; exit 0; fi
if [ -n "$id" ]; then
  tag=$(timeout 25 squeue --noheader --states=all --jobs="$id" --format=%k 2>/dev/null)
  case $tag in "tao:$store") echo "ID $id"; exit 0 ;; tao:*) echo STRANGER; exit 0 ;; esac
  echo NONE; exit 0
fi
if [ -d "$k" ]; then echo BEGUN; else echo NONE; fi
"""


def cancel(of: Mapping[str, Any], attempt: Attempt, job_id: str, seconds: float) -> str:
    """End an attempt's SLURM job and wait for that; then `$id`, squeue's row `$row` and its state `$s` are what was seen.

    $s is empty for what squeue does not know. What SLURM refuses is DENIED, in its words. Without its id the job is
    looked up, as `find` does.
    """
    return f"""{names(of, attempt)}
id={shlex.quote(job_id)}
if [ -z "$id" ]; then
  tries=0
  while [ -d "$k" ] && [ $tries -lt {HANDING_OVER * 10} ]; do tries=$((tries + 1)); sleep 0.1; done
  [ -d "$k" ] && {{ echo "DOUBT The job is being handed over."; exit 0; }}
  id=$(cat "$a/slurm_id" 2>/dev/null) || id=$(lookup) || {{ echo "DOUBT $id"; exit 0; }}
  id=${{id:-0}}
fi
state() {{
  row=$({parse.squeue_command(["$id"])} 2>&1) || case $row in
    *"Invalid job id"*) row= ;; *) echo "DOUBT $row"; exit 0 ;; esac
  s=${{row#*|}}; s=${{s%%|*}}
}}
over() {{ case $s in ''|{ENDED}) return 0 ;; esac; return 1; }}
[ $id = 0 ] || said=$(timeout 60 scancel $id 2>&1) || {{
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


def release(of: Mapping[str, Any], attempt: Attempt) -> str:
    """Remove what an attempt left but its results; the job's folder goes with the last one."""
    return f"""{names(of, attempt)}
[ -e "$a/store" ] && [ "$(cat "$a/store")" != "$store" ] && exit 0
rm -rf "$a" "$k" "$logs"
for link in "$job/slurm-logs/$name-"*; do [ -L "$link" ] && rm -f "$link"; done
rmdir "$job/slurm-logs" "$job/attempts" 2>/dev/null
if [ ! -d "$job/attempts" ]; then rm -rf "$job"; fi
[ ! -e "$a" ]
"""

# shellcheck shell=sh disable=SC2154
# Fills the folders of an attempt and hands it to SLURM, unless that was done before: then it says which job that is.
# Variables: base, job, n, a, logs, k, name and store of the attempt; tao_results, its folder; tao_named, variables of sbatch that the
# plan decides, beside those that it always does. Arguments: the folders to make.
# Functions: check_paths calls `need` for each path that must be there; stage fills the folders from the current one;
# prepare_image writes the file `image` and may set $after to more words for sbatch; call_sbatch takes those.
# Uses attempt.sh, answers.sh and lookup.sh.

me="$$-${SSH_CONNECTION-}" # who we are in the lock

doubt() {
  echo "DOUBT $1"
  exit 0
}
noroom() {
  echo "NOROOM $said"
  exit 0
}
unsafe() {
  echo "UNSAFE $1: $2"
  exit 0
}

# What somebody else could have put into these folders would be run as ours. The base may be a team's, `jobs` below it may not.
check_folder() {
  [ -e "$1" ] || return 0
  seen=$(stat -L -c '%u %a' "$1" 2>&1) || {
    said=$seen
    noroom
  }
  [ -O "$1" ] || [ "$2:${seen%% *}" = base:0 ] || unsafe "$1" "it belongs to another user"
  case $2:${seen##* } in
    base:[1357]???) ;;
    *[2367]) unsafe "$1" "anybody may write to it" ;;
    jobs:*[2367]?) unsafe "$1" "its group may write to it" ;;
  esac
}

# Makes the attempt's folders, takes its lock, and fails where another submit has it. The attempt's own folder comes last:
# where it is, the others are, also when a submit died between two of them.
lock() {
  [ -d "$a" ] || said=$(umask 077 && mkdir -p "$logs" "$@" "$a" 2>&1) || noroom
  [ -O "$base/jobs" ] || unsafe "$base/jobs" "it belongs to another user"
  set -C
  echo "$me" 2>/dev/null >"$k"
  set +C
  owns
}
owns() {
  read_line "$k"
  [ "$line" = "$me" ]
}
# Before each step that takes its time, and before sbatch. A step that lasted too long, a connection that was dead for
# example, has lost its lock to another submit: whatever is in the folder is that one's.
renew() {
  if ! owns || ! echo "$me" >"$k"; then doubt "Another submit of it is under way."; fi
}
# Whoever holds the lock and has no job at the end gives the lock back, and removes what it has made unless that was staged
# whole.
discard() {
  owns || return 0
  cd / || return 0
  if [ "$n" = 1 ]; then rm -rf "$job"; else rm -rf "$a" "$logs"; fi
}
unlock() {
  if ! owns || [ -s "$a/slurm_id" ]; then return 0; fi
  [ -s "$a/store" ] || discard
  rm -f "$k"
}
trap unlock EXIT

# Ends the script where the attempt is another store's, or has its SLURM job already.
known() {
  if is_strangers; then
    echo STRANGER
    exit 0
  fi
  read_line "$a/slurm_id"
  if [ -n "$line" ]; then
    echo "ID $line"
    exit 0
  fi
}
need() {
  [ -e "$2" ] || {
    echo "MISSING $1"
    lacks=yes
  }
}

check_folder "$base" base
check_folder "$base/jobs" jobs
known

# The paths that the job needs are not asked for again once it is staged.
if [ ! -s "$a/store" ]; then
  lacks=
  check_paths
  [ -z "$lacks" ] || exit 0
fi

# A lock older than a step lasts was left by a submit that died, and is removed; so is one that stays empty: there was no
# room for its owner's name.
tries=0
until lock "$@"; do
  known
  if is_stale; then rm -f "$k"; fi
  if [ $tries -gt 10 ] && [ -e "$k" ] && [ ! -s "$k" ]; then
    rm -f "$k"
    said="$k cannot be written."
    noroom
  fi
  tries=$((tries + 1))
  [ $tries -le 300 ] || doubt "Another submit of it is under way."
  sleep 0.1
done
known # again: it may have been handed over while the lock was waited for

# A submit before this one may have reached SLURM and died before it wrote down the id.
id=
[ ! -s "$a/store" ] || id=$(lookup) || doubt "$id"

# Two attempts of a job never run at once.
read_line "$job/attempts/$((n - 1))/slurm_id"
before=$line
if [ -z "$id" ] && [ -n "$before" ]; then
  alive=$(slurm timeout 25 squeue --noheader --jobs="$before" --format='%A;%T') || case $alive in
    *"Invalid job id"*) alive= ;;
    *) doubt "$alive" ;;
  esac
  find_id "$alive"
  if [ -n "$found" ]; then
    echo "ALIVE $before ${found#*;}"
    exit 0
  fi
fi

# What a user's shell may set for sbatch counts more than a script's directives. What a plan decides is not left to it.
forget_the_users_choices() {
  unset SBATCH_ARRAY_INX SBATCH_EXCLUSIVE SBATCH_GPUS SBATCH_GPUS_PER_NODE SBATCH_GPUS_PER_TASK SBATCH_GRES
  unset SBATCH_MEM_PER_CPU SBATCH_MEM_PER_GPU SBATCH_MEM_PER_NODE SBATCH_NO_REQUEUE SBATCH_PARTITION SBATCH_REQUEUE
  unset SBATCH_TIMELIMIT SBATCH_WAIT SBATCH_WAIT_ALL_NODES
  # shellcheck disable=SC2086
  [ -z "$tao_named" ] || unset $tao_named
}
# sbatch hands its environment to the job: the locale and time zone that we read SLURM's words in are put back before.
as_the_user() {
  LC_ALL=$locale TZ=$zone
  [ -n "$LC_ALL" ] || unset LC_ALL
  [ -n "$TZ" ] || unset TZ
}
# What SLURM's programs say when the controller did not answer: whether it took the job is then not known.
is_no_answer() {
  [ "$1" = 124 ] || echo "$2" | grep -qE \
    'timed out|Unable to contact|Connection refused|connect failure|Zero Bytes|Transport endpoint|Communication connection'
}

# Unless it was found by its name: fill the folders and call sbatch, which sets $id.
if [ -z "$id" ]; then
  [ -d "$tao_results" ] || said=$(umask 022 && mkdir -p "$tao_results" 2>&1) || noroom
  renew
  said=$(exec 2>&1; umask 077; cd "$job" && stage) || {
    discard
    case $said in
      *nexpected*) doubt "The files did not arrive whole: $said" ;;
      *) noroom ;;
    esac
  }
  renew
  cd "$a" || exit 1
  forget_the_users_choices
  after=
  prepare_image
  # shellcheck disable=SC2086
  said=$(as_the_user; call_sbatch $after 2>"$a/sbatch.err")
  code=$?
  if [ $code -ne 0 ]; then
    said=$(cat "$a/sbatch.err")
    if is_no_answer $code "$said"; then doubt "$said"; fi
    discard
    echo "REFUSED $said"
    exit 0
  fi
  find_id "$said"
  id=$found
  [ -n "$id" ] || doubt "$said"
fi

id=${id%%;*} # sbatch says "id;cluster" where there are several clusters
printf '%s\n' "$id" >"$a/slurm_id"
ln -sfn "attempt-$n" "$job/slurm-logs/$name-$id"
echo "ID $id"

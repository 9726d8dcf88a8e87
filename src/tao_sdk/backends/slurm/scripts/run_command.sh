# shellcheck shell=sh disable=SC2154
# run_command FOLDER COMMAND...: runs a task's command and exits with its code. SLURM sends SIGTERM to a task's first process alone, and
# twice when it ends a job itself. That process is this shell: it tells its whole group, once. Then it stays until the others
# of the group have ended, because SLURM kills what is left when it exits. FOLDER is the attempt's.
# Variable: tao_limiter, the pid of limit_time, or nothing.

# Sets $tao_parent, $tao_group and $tao_state of a process.
read_process() {
  { read -r tao_line <"/proc/$1/stat"; } 2>/dev/null || return 1
  # shellcheck disable=SC2086
  set -- ${tao_line##*) }
  tao_state=$1 tao_parent=$2 tao_group=$3
}
# This shell and what it was started by.
find_ancestors() {
  tao_ancestors=" $tao_limiter " tao_parent=$$
  while [ "${tao_parent:-0}" -gt 1 ]; do
    tao_ancestors="$tao_ancestors$tao_parent "
    read_process "$tao_parent" || return 0
  done
}
# Whether the group has a process beside this shell, what it was started by, and limit_time.
others_live() {
  read_process $$ || return 1
  tao_ours=$tao_group
  for tao_process in /proc/[0-9]*; do
    tao_process=${tao_process#/proc/}
    case $tao_ancestors in *" $tao_process "*) continue ;; esac
    read_process "$tao_process" || continue
    if [ "$tao_group" = "$tao_ours" ] && [ "$tao_state" != Z ] && [ "$tao_parent" != "$tao_limiter" ]; then
      return 0
    fi
  done
  return 1
}
# Whether the end of the job was asked for by us. Its outcome is written down elsewhere then.
is_to_end() { [ -e "$1/grace" ] || [ -e "$1/timed_out" ]; }
run_command() {
  tao_told='' tao_attempt=$1
  shift
  trap 'trap "" TERM; tao_told=yes; kill -TERM 0' TERM
  # A shell lets what it starts in the background ignore SIGINT.
  if env --default-signal=INT,QUIT true 2>/dev/null; then
    env --default-signal=INT,QUIT "$@" &
  else
    "$@" &
  fi
  tao_child=$!
  { wait "$tao_child"; } 2>/dev/null
  tao_code=$?
  if [ -n "$tao_told" ]; then
    { wait "$tao_child"; } 2>/dev/null
    tao_code=$?
    find_ancestors
    while others_live; do sleep 0.1; done
    # srun kills the other nodes' tasks when one fails, also while they save.
    if is_to_end "$tao_attempt"; then tao_code=0; fi
  fi
  exit "$tao_code"
}

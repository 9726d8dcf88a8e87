# shellcheck shell=sh disable=SC2154
# run_command COMMAND...: runs a job's command in its container and exits with its code. hear_signals, before it: what this
# shell does with signals. The container ends with this shell. So once the job is told to end, this shell stays until the others
# of its process group have ended, also those that a shell started which SIGTERM has ended.
# Variables: tao_limit, seconds for the command, or nothing; tao_grace, seconds to end after that; tao_tells, not empty where
# SIGTERM reaches this shell alone, which then tells the group.

tao_told='' tao_late='' tao_limiter=''

hear_signals() {
  if [ -n "$tao_tells" ]; then
    trap 'tao_told=1; trap "" TERM; kill -TERM 0' TERM
    trap 'tao_late=1; trap "" TERM; kill -TERM 0' ALRM
  else
    trap 'tao_told=1' TERM
    trap 'tao_late=1' ALRM
    trap : HUP INT QUIT USR1 USR2 # they are for the command
  fi
}
# Sets $tao_process, $tao_state, $tao_parent and $tao_group from the stat file of a process.
read_stat() {
  { read -r tao_line <"$1"; } 2>/dev/null || return 1
  tao_process=${tao_line%% *}
  tao_line=${tao_line##*) }
  tao_state=${tao_line%% *} tao_line=${tao_line#* }
  tao_parent=${tao_line%% *} tao_line=${tao_line#* }
  tao_group=${tao_line%% *}
}
# True while the group has a process beside this shell and limit_time.
others_live() {
  read_stat /proc/$$/stat || return 1
  tao_ours=$tao_group
  for tao_stat in /proc/[0-9]*/stat; do
    read_stat "$tao_stat" || continue
    if [ "$tao_group" != "$tao_ours" ] || [ "$tao_state" = Z ]; then continue; fi
    case $tao_process in "$$" | "$tao_limiter") continue ;; esac
    [ "$tao_parent" = "$tao_limiter" ] || return 0
  done
  return 1
}
limit_time() {
  (
    trap '' HUP INT QUIT TERM USR1 USR2
    sleep "$tao_limit" || exit
    kill -ALRM $$
    [ -n "$tao_tells" ] || kill -TERM 0
    sleep "$tao_grace"
    kill -KILL 0
  ) &
  tao_limiter=$!
}
# In the foreground, where the command has every signal as it should be. A shell says how a command was killed: not into the log.
run_told() {
  exec 3>&2 2>/dev/null
  (exec "$@" </dev/null 2>&3 3>&-)
  tao_code=$?
}
# In the background, where this shell hears of SIGTERM while the command runs. There a shell lets a command ignore SIGINT.
run_telling() {
  if env --default-signal=INT,QUIT true 2>/dev/null; then
    set -- env --default-signal=INT,QUIT "$@"
  elif command -v python3 >/dev/null; then
    tao_reset='import os, signal, sys
for number in (2, 3, 13, 25): signal.signal(number, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])'
    set -- python3 -ISc "$tao_reset" "$@"
  fi
  "$@" </dev/null &
  tao_child=$!
  while :; do
    { wait "$tao_child"; } 2>/dev/null
    tao_code=$?
    kill -0 "$tao_child" 2>/dev/null || break
  done
  [ -z "$tao_told" ] || [ "$tao_code" -ne 0 ] || tao_code=143
}
run_command() {
  [ -z "$tao_limit" ] || limit_time
  if [ -n "$tao_tells" ]; then run_telling "$@"; else run_told "$@"; fi
  if [ -n "$tao_told$tao_late" ]; then
    while others_live; do sleep 0.1 2>/dev/null || sleep 1 || break; done
  fi
  [ -z "$tao_late" ] || exit 124
  exit "$tao_code"
}

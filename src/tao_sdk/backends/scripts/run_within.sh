# shellcheck shell=sh
# run_within SECONDS GRACE COMMAND...: runs a command and ends with its code, or with 124 after SECONDS. The process group gets
# SIGTERM then, and SIGKILL after GRACE more. Uses sleep.sh. Not `timeout`: images may lack it, and busybox's hides what it did
# if the command saves its work and exits with 0.

run_within() {
  tao_late=''
  trap 'tao_late=1' ALRM
  trap : HUP INT QUIT TERM USR1 USR2 # they are for the command
  (
    trap '' HUP INT QUIT TERM USR1 USR2
    sleep "$1"
    kill -ALRM $$
    kill -TERM 0
    sleep "$2"
    kill -KILL 0
  ) &
  shift 2
  exec 3>&2 2>/dev/null # the shell would say in the log how the command was killed
  (exec "$@" </dev/null 2>&3 3>&-)
  tao_code=$?
  [ -z "$tao_late" ] || exit 124
  exit "$tao_code"
}

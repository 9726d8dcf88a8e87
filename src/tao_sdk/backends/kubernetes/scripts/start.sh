#!/bin/sh
# shellcheck disable=SC2154
# What runs first in a job's container, in bash or sh, after run_command.sh. Variables: tao_rank0 (name of rank 0's pod, or ""),
# tao_parts (folder with the parts of the command, or ""), tao_run (folder to put them together). $1: the command.

hear_signals
tao_resolves() {
  if command -v getent >/dev/null; then getent hosts "$1" >/dev/null 2>&1; return; fi
  if command -v python3 >/dev/null; then
    python3 -c 'import socket, sys; socket.getaddrinfo(sys.argv[1], None)' "$1" 2>/dev/null; return
  fi
  command -v nslookup >/dev/null || return 0
  for tao_domain in '' $(sed -n 's/^search/ /p' /etc/resolv.conf); do # busybox's does not search
    nslookup "$1${tao_domain:+.$tao_domain}" >/dev/null 2>&1 && return
  done
  return 1
}

tao_seconds() { date +%s 2>/dev/null || echo "$tao_tries"; }

if [ -n "${JOB_COMPLETION_INDEX:-}" ]; then
  export NODE_RANK="${NODE_RANK:-$JOB_COMPLETION_INDEX}" TAO_RANK="$JOB_COMPLETION_INDEX"
fi
if [ -n "$tao_rank0" ]; then
  tao_tries=0
  tao_begun=$(tao_seconds)
  until tao_resolves "$tao_rank0"; do # a try may take some seconds itself
    [ -z "$tao_told" ] || exit 143
    tao_tries=$((tao_tries + 1))
    if [ $(($(tao_seconds) - tao_begun)) -ge 300 ]; then
      printf '@tao {"event": "failed", "time": %d, "code": "start.no_rank_0", "what": "rank 0 (%s) was not found by name"}\n' \
        "$(date +%s)" "$tao_rank0" >&2
      exit 125
    fi
    sleep 1
  done
fi

[ -z "${TAO_RESULTS_DIR:-}" ] || mkdir -p "$TAO_RESULTS_DIR" 2>/dev/null
if [ -n "$tao_parts" ]; then
  cat "$tao_parts"/command-* >"$tao_run/command" || exit 125
  set -- "$tao_run/command"
else
  set -- -c "$1"
fi
if command -v bash >/dev/null; then set -- bash "$@"; else set -- /bin/sh "$@"; fi
run_command "$@"

#!/bin/bash
# shellcheck disable=SC2154
# What runs first in each replica of a job, after run_command.sh and sleep.sh. Variables: tao_mark (how the last line of the
# log begins), tao_grace (seconds).
# $@: the parts of the command. The last line tells what the workspace's API does not: the exit code, whether the time limit
# ended the command, and that the log is whole.

exec 2>&1 # one stream, so that the last line is the last
trap 'printf "\n%s %d %s\n" "$tao_mark" "$?" "${tao_late:+$tao_limit}"' EXIT
hear_signals
# A workspace kills what has not ended in time, and the last line with it. So what ignores SIGTERM is killed here first, by a
# shell in a group of its own, which nobody waits for. Of the first process of a container, -$$ are all others.
trap 'tao_told=1; trap "" TERM; kill -TERM 0; (set -m; { sleep "$tao_grace"; kill -KILL -- "-$$"; } &)' TERM
[ -z "${tao_early:-}" ] || exit 143
tao_resolves() {
  if command -v getent >/dev/null; then getent hosts "$1" >/dev/null 2>&1; return; fi
  if command -v python3 >/dev/null; then
    python3 -c 'import socket, sys; socket.getaddrinfo(sys.argv[1], None)' "$1" 2>/dev/null; return
  fi
  return 0
}

tao_total=${LEPTON_JOB_TOTAL_WORKERS:-1}
if [ "$tao_total" -gt 1 ]; then
  tao_prefix=${LEPTON_JOB_WORKER_HOSTNAME_PREFIX:-worker}
  tao_rank0=$tao_prefix-0.${LEPTON_SUBDOMAIN:-}
  export NODE_RANK="${NODE_RANK:-$LEPTON_JOB_WORKER_INDEX}" TAO_RANK="$LEPTON_JOB_WORKER_INDEX"
  export MASTER_ADDR="${MASTER_ADDR:-$tao_rank0}"
  WORKER_ADDRS=''
  for ((tao_worker = 1; tao_worker < tao_total; tao_worker++)); do
    WORKER_ADDRS+=${WORKER_ADDRS:+,}$tao_prefix-$tao_worker.${LEPTON_SUBDOMAIN:-}
  done
  export WORKER_ADDRS
  tao_begun=$SECONDS
  until tao_resolves "$tao_rank0"; do # the nodes of a job may start minutes apart
    [ -z "$tao_told" ] || exit 143
    if [ $((SECONDS - tao_begun)) -ge 900 ]; then
      printf '@tao {"event": "failed", "time": %d, "code": "start.no_rank_0", "what": "rank 0 (%s) was not found by name"}\n' \
        "$(date +%s)" "$tao_rank0"
      exit 125
    fi
    sleep 1
  done
fi

[ -z "${TAO_RESULTS_DIR:-}" ] || mkdir -p "$TAO_RESULTS_DIR" 2>/dev/null
if [ $# -gt 1 ]; then # an argument of a program has a limit, and all together have another
  tao_command=$(mktemp) || exit 125
  printf %s "$@" >"$tao_command" || exit 125
  set -- "$tao_command"
else
  set -- -c "$1"
fi
exec 2>/dev/null # bash says there which process was killed; the command's own words go with its output
run_command bash -c 'exec bash "$@" 2>&1' tao "$@"

# shellcheck shell=sh
# How jobs are, and the cluster's time. Functions: ask_squeue and ask_sacct print a row for each job. Uses capture.sh.

printf '=== now 0 19 0\n%s\n' "$(date +%Y-%m-%dT%H:%M:%S)"
capture squeue ask_squeue
capture sacct ask_sacct

# shellcheck shell=sh disable=SC2154
# Prints a line `cpu TASKS|AVERAGE` for each step of a running job, the CPU time that SLURM measured of its tasks, and
# `silent SECONDS`, the age of rank 0's newest output. Prints nothing of what does not answer in time.
# Variables: slurm_id; logs, the folder of the attempt's logs.

timeout 10 sstat --noheader --parsable2 --allsteps --jobs="$slurm_id" --format=NTasks,AveCPU 2>/dev/null | sed 's/^/cpu /'
newest=$(timeout 5 stat -c %Y "$logs/main.out" "$logs/main.err" 2>/dev/null | sort -n | tail -n 1)
[ -z "$newest" ] || echo "silent $(($(date +%s) - newest))"
true

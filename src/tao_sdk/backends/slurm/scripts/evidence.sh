# shellcheck shell=sh disable=SC2154
# All that SLURM and the nodes say of one attempt, and the last lines of every rank's log but the first's.
# Variables: attempt, logs, results: its folders. Functions: ask_squeue, ask_sacct. Uses capture.sh and remains.sh.

# The user's running jobs and all that wait, by priority: `id|state|mine|partitions|reason`.
queued_jobs() {
  timeout 25 squeue --noheader --states=RUNNING,PENDING --sort=-p,i --format='%i|%T|%u|%P|%r' |
    me=$(id -un) awk -F '|' -v OFS='|' '
      $2 == "RUNNING" && $3 != ENVIRON["me"] { next }
      { $3 = $3 == ENVIRON["me"] ? "mine" : ""; print }' |
    head -n 2000
}
idle_nodes() { timeout 25 sinfo --noheader --states=idle --format='%R %D'; }
# What was said since the script began the last time: SLURM may have started it more than once, and why is no matter any more.
last_words() {
  [ ! -e "$logs/slurm.out" ] || tail -c 16384 "$logs/slurm.out"
  begin=$(cat "$attempt/started" 2>/dev/null)
  [ ! -e "$logs/slurm.err" ] || tail -c +$((${begin:-0} + 1)) "$logs/slurm.err" | tail -c 16384
}
last_of_ranks() {
  for file in "$logs"/rank-*; do
    [ ! -e "$file" ] || tail -c 4096 "$file"
  done
}
last_of_conversion() { [ ! -e "$attempt/image.log" ] || tail -c 16384 "$attempt/image.log"; }

capture squeue ask_squeue
capture sacct ask_sacct
capture queue queued_jobs
capture idle idle_nodes
capture words last_words
capture ranks last_of_ranks
capture image last_of_conversion
print_remains "$attempt" "$results"

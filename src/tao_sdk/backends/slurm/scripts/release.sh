# shellcheck shell=sh disable=SC2154
# Removes what an attempt left but its results; the job's folder goes with the last one. Fails where it is still there.
# Variables: job, a, logs, k and name of the attempt. Uses attempt.sh.

if is_strangers; then exit 0; fi
rm -rf "$a" "$k" "$logs"
for link in "$job/slurm-logs/$name-"*; do
  [ ! -L "$link" ] || rm -f "$link"
done
rmdir "$job/slurm-logs" "$job/attempts" 2>/dev/null
if [ ! -d "$job/attempts" ]; then rm -rf "$job"; fi
[ ! -e "$a" ]

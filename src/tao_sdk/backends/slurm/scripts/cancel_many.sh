# shellcheck shell=sh disable=SC2154
# Ends the SLURM jobs of many attempts with one scancel, and waits until all have ended. Says ASKED once SLURM has taken that;
# else nothing, and each job has to be canceled by itself. How each job is, look.sh tells afterwards. A job that has another
# name is left alone: ids are used again, names are not.
# Variables: jobs, a line `ID|NAME` for each attempt; seconds to wait. Function: ask_squeue prints a row for each job.
# Uses answers.sh and states.sh.

newline='
'
# Sets $running to the ids of our jobs that have not ended.
find_running() {
  rows=$(slurm ask_squeue) || case $rows in
    *"Invalid job id"*) rows= ;;
    *) exit 0 ;;
  esac
  running=
  while read -r row; do
    is_ours || continue
    state=${row#*|}
    has_ended "${state%%|*}" || running="$running ${row%%|*}"
  done <<END
$rows
END
}
# Whether the id and the name of squeue's row are those of one attempt.
is_ours() {
  case $newline$jobs$newline in
    *"$newline${row%%|*}|${row##*|}$newline"*) return 0 ;;
  esac
  return 1
}
# Whether scancel's words are only about jobs that ended meanwhile.
is_about_ended() {
  [ -n "$1" ] && ! echo "$1" | grep -v -e '^$' -e 'Invalid job id' -e 'already completing or completed' >/dev/null
}

find_running
if [ -n "$running" ]; then
  # shellcheck disable=SC2086
  words=$(timeout 60 scancel $running 2>&1) || is_about_ended "$words" || exit 0
fi
echo ASKED
until=$(($(date +%s) + seconds)) pause=0.1
while
  find_running
  [ -n "$running" ]
do
  [ "$(date +%s)" -le "$until" ] || break
  sleep $pause
  pause=0.5
done

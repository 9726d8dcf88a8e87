# shellcheck shell=sh disable=SC2154
# Ends the SLURM jobs of many attempts with one scancel for each step, and waits until all have ended. Says ASKED once SLURM
# has taken that; else nothing, and each job has to be canceled by itself. How each job is, look.sh tells afterwards. A job
# that has another name is left alone: ids are used again, names are not.
# Variables: jobs, a line `ID|NAME` for each attempt; seconds to wait after the grace. Functions: ask_squeue prints a row for
# each job; note_grace writes the grace into each attempt's folder, note_killed a mark
# into those of the attempts in $started. Uses answers.sh, states.sh and end_steps.sh.

newline='
'
# A controller that does not answer is asked again while $patient is set.
patient=
# Sets $started to the ids of our jobs that run, and $waiting to those of the others that have not ended.
find_jobs() {
  rows=$(slurm ask_squeue) || case $rows in
    *"Invalid job id"*) rows= ;;
    *) if [ -n "$patient" ]; then return 0; else exit 0; fi ;;
  esac
  started='' waiting=''
  while read -r row; do
    is_ours || continue
    state=${row#*|}
    state=${state%%|*}
    if has_ended "$state"; then continue; fi
    if [ "$state" = RUNNING ]; then
      started="$started ${row%%|*}"
    else
      waiting="$waiting ${row%%|*}"
    fi
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
some_run() {
  find_jobs
  [ -n "$started" ]
}
# Whether scancel's words are only about jobs that ended meanwhile.
is_about_ended() {
  [ -n "$1" ] && ! echo "$1" | grep -v -e '^$' -e 'Invalid job id' -e 'already completing or completed' >/dev/null
}
cancel_jobs() {
  words=$(timeout 60 scancel "$@" 2>&1) || is_about_ended "$words" || exit 0
}

find_jobs
# shellcheck disable=SC2086
[ -z "$waiting" ] || cancel_jobs $waiting
if [ -n "$started" ]; then
  note_grace
  patient=yes
  # shellcheck disable=SC2086
  end_steps some_run $started || exit 0
  patient=
  # shellcheck disable=SC2086
  [ -z "$started" ] || cancel_jobs $started
fi
echo ASKED
until=$(($(date +%s) + seconds)) pause=0.1
while
  find_jobs
  [ -n "$started$waiting" ]
do
  [ "$(date +%s)" -le "$until" ] || break
  sleep $pause
  pause=0.5
done

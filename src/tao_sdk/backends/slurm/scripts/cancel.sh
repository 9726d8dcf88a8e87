# shellcheck shell=sh disable=SC2154,SC2034
# Ends an attempt's SLURM job and waits for that; then $id, squeue's row $row and its state $s are what was seen. $s is empty
# when squeue does not know the job, or knows another under its id: ids are used again, names are not. Where SLURM refuses, it
# says DENIED and SLURM's words. Without an id the job is looked up, as find.sh does.
# Variables: a, k and name of the attempt; id, or nothing; grace, seconds for the command to end, as text for its file;
# seconds to wait for the end after that. Functions: ask_squeue prints its row.
# Uses attempt.sh, answers.sh, lookup.sh, states.sh and end_steps.sh.

if [ -z "$id" ]; then
  tries=0
  until
    read_line "$a/slurm_id"
    id=$line
    [ -n "$id" ] || [ ! -e "$k" ]
  do
    if is_stale; then
      rm -f "$k"
      continue
    fi
    tries=$((tries + 1))
    if [ $tries -gt 100 ]; then
      echo "DOUBT The job is being handed over."
      exit 0
    fi
    sleep 0.1
  done
  [ -n "$id" ] || id=$(lookup) || {
    echo "DOUBT $id"
    exit 0
  }
  id=${id:-0}
fi

# A controller that does not answer is asked again while $patient is set.
patient=
look() {
  seen=$(slurm ask_squeue) || case $seen in
    *"Invalid job id"*) seen= ;;
    *)
      [ -z "$patient" ] || return 0
      echo "DOUBT $seen"
      exit 0
      ;;
  esac
  row=
  while read -r each; do
    case $each in
      "$id|"*"|$name") row=$each ;;
    esac
  done <<END
$seen
END
  s=${row#*|}
  s=${s%%|*}
}
is_over() { [ -z "$s" ] || has_ended "$s"; }

note_killed() {
  : >"$a/killed"
} 2>/dev/null
still_runs() {
  look
  ! is_over
}

look
if [ "$s" = RUNNING ] && { echo "$grace" >"$a/grace"; } 2>/dev/null; then
  patient=yes
  end_steps still_runs "$id" || : # the scancel below tells why
  patient=
fi
is_over || said=$(timeout 60 scancel "$id" 2>&1) || case $said in
  *"Invalid job id"* | *"already completing or completed"*) ;;
  *denied*)
    rm -f "$a/grace"
    echo "DENIED $said"
    exit 0
    ;;
  *)
    rm -f "$a/grace"
    echo "DOUBT $said"
    exit 0
    ;;
esac
until=$(($(date +%s) + seconds)) pause=0.1
while still_runs; do
  [ "$(date +%s)" -le "$until" ] || break
  sleep $pause
  pause=0.5
done

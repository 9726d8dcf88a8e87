# shellcheck shell=sh disable=SC2154
# Ends the tasks of running SLURM jobs: SIGTERM once to each task, SIGKILL when the grace is over. The batch script ends its
# job when its tasks are gone and the attempt's folder has the file `grace`. scancel without a signal does otherwise: it also
# tells srun, which tells the tasks again, and the time until SIGKILL is the site's.
# Variables: tao_grace_seconds, the grace in whole seconds. Function: note_killed leaves a mark for the jobs that still run when
# the grace is over: of a canceled job SLURM keeps no exit code.

# end_steps LOOK ID...: LOOK is a function that succeeds while one of the jobs has not ended. Fails where SLURM refuses.
end_steps() {
  still_runs=$1
  shift
  timeout 60 scancel --signal=TERM "$@" >/dev/null 2>&1 || return 1
  until=$(($(date +%s) + tao_grace_seconds)) pause=0.1
  while $still_runs; do
    if [ "$(date +%s)" -gt "$until" ]; then
      note_killed
      timeout 60 scancel --signal=KILL "$@" >/dev/null 2>&1
      return 0
    fi
    sleep $pause
    pause=0.5
  done
}

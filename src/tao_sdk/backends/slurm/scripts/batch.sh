# shellcheck shell=bash disable=SC2154,SC2034
# What SLURM starts on the first node, below its directives: it starts the command on every node and ends with its exit code.
# Variables: d, the attempt's folder; words, the file that srun's words go to; tao_number of the attempt; tao_nodes;
# tao_exclusive, tao_image_wanted and tao_requeue, yes or no. Function: start_task runs task.sh on every node.

rm -f "$d/exit" "$d/timed_out"
stat -c %s "$words" >"$d/started" 2>/dev/null
ended=
trap 'ended=yes' TERM

# Leaves the exit code of an attempt that has ended for who looks.
record_end() {
  printf '{"attempt":%d,"exit_code":%d,"time_limit":%s}' "$tao_number" "$1" "$2" >"$d/exit.new"
  mv -f "$d/exit.new" "$d/exit"
}
# Where our cancel has told the tasks to end, the job is to end as canceled. See end_steps.sh. That it had to be killed is told
# by the record alone: of a canceled job SLURM keeps no exit code.
end_if_canceled() {
  # shellcheck disable=SC2010
  ls "$d" | grep -qx grace || return 0 # ls asks a file server anew, which a test need not
  [ "$1" != 137 ] || record_end "$1" false
  timeout 20 scancel "$SLURM_JOB_ID" && sleep 60 &
  wait $!
  exit "$1"
}
end_if_canceled 143

# Where the ranks meet is in a file for every task: an image may set variables of these names.
master=127.0.0.1 port=29500
[ "$tao_exclusive" = yes ] || port=$((15000 + SLURM_JOB_ID % 17000))
if [ "$tao_nodes" != 1 ]; then
  master=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
  # The file is sourced on every node: a name is a name, or the job ends here.
  case $master in
    '' | *[!A-Za-z0-9._:-]*)
      echo "tao: SLURM's name of the first node is no host name: '$master'" >&2
      exit 125
      ;;
  esac
fi
printf "export MASTER_ADDR='%s' MASTER_PORT='%s'\n" "$master" "$port" >"$d/meeting.sh"
[ "$tao_image_wanted" = no ] || tao_image=$(cat "$d/image")

# While the controller restarts srun starts nothing, and is asked again.
for _ in $(seq 60); do
  before=$(stat -c %s "$words" 2>/dev/null || echo 0)
  start_task
  code=$? said=$(tail -c +$((before + 1)) "$words")
  end_if_canceled "$code"
  case "$ended$said" in
    *": Invalid job id specified"*) break ;;
    "srun: error: Unable to confirm allocation for job "*) ;;
    "srun: error: Unable to create step for job "*": Unable to contact slurm controller"*) ;;
    *) break ;;
  esac
  sleep 5 &
  wait $!
  [ -z "$ended" ] || break
done

# srun ends the other ranks when one fails, and then has their signal for its code; of an OOM it says 1. Its words for a signal
# are those of glibc's strsignal, and SLURM's own for an OOM.
first=$(echo "$said" | sed -n 's/^srun: error: [^ ]*: tasks\{0,1\} [^ ]*: //p' | head -n 1)
case $first in
  "Exited with exit code "*) code=${first##* } ;;
  "Killed"*) code=137 ;;
  "Out Of Memory"*) code=137 ;;
  "Segmentation fault"*) code=139 ;;
  "Aborted"*) code=134 ;;
  "Bus error"*) code=135 ;;
  "Terminated"*) code=143 ;;
  "Floating point exception"*) code=136 ;;
  "Illegal instruction"*) code=132 ;;
  "Hangup"*) code=129 ;;
  "Interrupt"*) code=130 ;;
  "Quit"*) code=131 ;;
esac
limit=false
if [ -e "$d/timed_out" ]; then
  limit=true code=124
fi

# What SLURM ends it may start again: that is no end, and the secrets are needed then.
case "$ended$said" in
  yes* | *"Node failure"* | *"*** JOB "*"CANCELLED AT"*) [ $limit = true ] || exit "$code" ;;
esac
again=no # `perhaps` if SLURM could not say
if [ "$tao_requeue" = yes ]; then
  # A node that SLURM took for lost may still have brought it here: then it is another run's turn, or will be.
  now=$(timeout 10 scontrol show job --oneliner "$SLURM_JOB_ID" 2>/dev/null) || again=perhaps
  ours="JobState=RUNNING *Restarts=${SLURM_RESTART_COUNT:-0} "
  # shellcheck disable=SC2254
  case "$again$now" in
    perhaps* | *" "$ours*) ;;
    *) exit "$code" ;;
  esac
fi
if [ $again = no ] && { [ $limit = true ] || [ "$code" -le 128 ]; }; then
  rm -f "$d/env.sh"
fi
record_end "$code" $limit
exit "$code"

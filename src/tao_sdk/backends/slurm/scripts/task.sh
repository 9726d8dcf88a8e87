# shellcheck shell=sh disable=SC2154,SC2034
# What runs on every node, in the container: its own log, its own rank, then the command.
# Variables: d and l, the folders of the attempt and of its logs; tao_folder to start in, or nothing; tao_gpus of the node;
# tao_seconds and tao_part, whole seconds and the rest until the command is asked to end, or 0; tao_grace, seconds until it is
# killed. The variables of the rendezvous are exported, all but MASTER_ADDR and NODE_RANK. Uses limit_time.sh
# and run_command.sh.

rank=${SLURM_PROCID:-0} node=${SLURM_NODEID:-0}
if [ "$rank" = 0 ]; then name=main; else name=rank-$rank; fi
exec >>"$l/$name.out" 2>>"$l/$name.err" </dev/null || exit 125
[ ! -e "$d/grace" ] || exit 143 # canceled before there was a task to tell
[ -z "$tao_folder" ] || cd "$tao_folder" || exit 125

# Ranks from SLURM or MPI, and what makes Lightning believe that srun has started every rank by itself. The command gets the
# variables of the rendezvous instead.
unset SLURM_NTASKS SLURM_NPROCS SLURM_PROCID SLURM_LOCALID SLURM_NTASKS_PER_NODE SLURM_TASKS_PER_NODE
unset SLURM_STEP_NUM_TASKS SLURM_STEP_TASKS_PER_NODE PMI_RANK PMI_SIZE PMIX_RANK RANK LOCAL_RANK
export SLURM_JOB_NAME=bash

# Kept where env.sh cannot reach: the job's variables may have any name.
set -- "$d" "$rank" "$node" "$(command -v bash || echo /bin/sh)" "$tao_gpus" "$tao_seconds" "$tao_part" "$tao_grace"
# shellcheck disable=SC1091
{ . "$d/meeting.sh" && . "$d/env.sh"; } || exit 125
export NODE_RANK="$3" TAO_RANK="$2"
[ "$5" != 0 ] || export CUDA_VISIBLE_DEVICES='' NVIDIA_VISIBLE_DEVICES=void
tao_limiter=
if [ "$6 $7" != "0 0" ]; then
  limit_time "$1" "$6" "$7" "$8" >/dev/null 2>&1 &
  tao_limiter=$!
fi
run_command "$1" "$4" "$1/command"

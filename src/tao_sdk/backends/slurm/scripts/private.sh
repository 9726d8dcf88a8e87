# shellcheck shell=sh
# For every script but a submit: sbatch hands its umask and environment to the job.

export SLURM_TIME_FORMAT=standard
umask 077

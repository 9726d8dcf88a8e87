# shellcheck shell=sh disable=SC2034
# How every script for the login node begins. What a user's shell may set to see less of his jobs, or to be asked before
# he ends one, is unset: a job that squeue hides for that would be taken for gone. Sets $locale and $zone: the user's own.

locale=${LC_ALL-} zone=${TZ-}
export LC_ALL=C TZ=UTC
unset SQUEUE_ACCOUNT SQUEUE_LICENSES SQUEUE_NAMES SQUEUE_PARTITION SQUEUE_QOS SQUEUE_STATES SQUEUE_USERS
unset SCANCEL_ACCOUNT SCANCEL_BATCH SCANCEL_INTERACTIVE SCANCEL_NAME SCANCEL_PARTITION SCANCEL_QOS SCANCEL_STATE
unset SCANCEL_USER SCANCEL_WCKEY
trap '' HUP PIPE INT

#!/bin/sh
# machine.sh FOLDER NAME PROGRAM [ARGUMENT...]: run a program on one machine of the cluster that lives in FOLDER.
#
# A machine has its own name and its own /tmp. All machines of a cluster share its /etc, /usr/local/bin and /lustre,
# which nobody else on this computer sees; every other path is the computer's. /etc is mounted as a whole: a mount over
# /etc/passwd alone goes away when the computer replaces its own, as each installed package with a user does.
set -e
folder=$1 name=$2
shift 2
mkdir -p "$folder/machines/$name"
chmod 1777 "$folder/machines/$name"
export folder name
exec unshare --uts --mount --propagation slave sh -ec '
  hostname "$name"
  mount --bind "$folder/machines/$name" /tmp
  mount --bind "$folder/lustre" /lustre
  mount --bind "$folder/bin" /usr/local/bin
  mount --bind "$folder/machine-etc" /etc
  unset folder name
  exec "$@"
' sh "$@"

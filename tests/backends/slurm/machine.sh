#!/bin/sh
# machine.sh FOLDER NAME PROGRAM [ARGUMENT...]: run a program on one machine of the cluster that lives in FOLDER.
#
# A machine has its own name and its own /tmp. All machines of a cluster share its users, hosts, /usr/local/bin and /lustre,
# which nobody else on this computer sees; every other path is the computer's.
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
  for file in hosts passwd group; do mount --bind "$folder/etc/$file" "/etc/$file"; done
  unset folder name
  exec "$@"
' sh "$@"

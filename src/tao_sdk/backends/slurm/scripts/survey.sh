# shellcheck shell=sh disable=SC2154
# What a job needs to know of a cluster. The section of a command that hangs or is missing is empty.
# Variables: base; images, the folder of converted images, or empty for the one below base.

export LC_ALL=C
exec 2>/dev/null
section() { echo "=== $1"; }

# The accounts above the user's, level by level: `account|parent`. Only where a partition takes but some accounts.
accounts_above() {
  timeout 20 scontrol show partition --oneliner | grep -v 'AllowAccounts=ALL' | grep -q 'AllowAccounts=' || return 0
  of=$(timeout 20 sacctmgr -nP show assoc user="$(id -un)" format=account | sort -u | paste -s -d , -)
  for _ in 1 2 3 4 5 6 7 8; do
    [ -n "$of" ] || break
    rows=$(timeout 20 sacctmgr -nP show assoc account="$of" user= format=account,parentname)
    printf '%s\n' "$rows"
    of=$(printf '%s\n' "$rows" | cut -d '|' -f 2 | grep -v -x -e root -e '' | sort -u | paste -s -d , -)
  done
}

section user
id -un
section config
timeout 20 scontrol show config
section partitions
timeout 20 scontrol show partition --oneliner
section nodes
timeout 20 sinfo --noheader --exact --format='%R|%D|%c|%G'
section accounts
timeout 20 sacctmgr -nP show assoc user="$(id -un)" format=account,partition,qos,maxwall,defaultqos
section above
accounts_above
section qos
timeout 20 sacctmgr -nP show qos format=name,maxwall
section flags
srun --help | grep -o -e '--container-image'
section programs
for each in enroot apptainer singularity; do
  if command -v $each >/dev/null; then echo $each; fi
done
section folders # mounted in every container, where the cluster has it
[ ! -d /lustre ] || echo /lustre
section images # the converted ones that may have a newer version in their registry
timeout 20 find "${images:-$base/images}/." -maxdepth 1 -name '*=latest.*' -size +0 | grep -o '[^/]*$'
section base
realpath -m "$base"
true

# shellcheck shell=sh disable=SC2154
# Prints what the login node knows of the machines that run jobs, one fact a line.
# partition: a list of partitions, or empty for all; base: the base directory.

printf 'arch %s\n' "$(uname -m)"
if gres=$(sinfo --noheader --format=%G ${partition:+"--partition=$partition"}); then
  printf '%s\n' "$gres" | sed 's/^/gres /'
else
  echo 'unseen gres'
fi
df -Pk -- "$base" 2>/dev/null | awk 'NR == 2 { print "free", $4 }'

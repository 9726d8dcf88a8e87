# shellcheck shell=sh disable=SC2154
# Looking an attempt up by its name. Variables: name, accounting (yes or no), since. Uses answers.sh.

# Prints the attempt's SLURM id, or nothing when neither squeue nor sacct has such a name; fails with SLURM's words.
lookup() {
  seen=$(slurm timeout 25 squeue --noheader --states=all --user="$(id -un)" --name="$name" --format=%i) || {
    echo "$seen" | tail -n 1
    return 1
  }
  find_id "$seen"
  if [ -z "$found" ] && [ "$accounting" = yes ]; then
    seen=$(slurm timeout 25 sacct -X -n -P --user="$(id -un)" --name="$name" --starttime="$since" --format=JobIDRaw) || {
      echo "$seen" | tail -n 1
      return 1
    }
    find_id "$seen"
  fi
  echo "$found"
}

# shellcheck shell=sh disable=SC2034
# Reading the answers of SLURM's programs. What a site's programs say beside them (greetings, warnings) is no part of these.

# Runs a program and prints its output, or its words where it fails.
slurm() {
  { words=$("$@" 2>&1 >&3); } 3>&1 || {
    set -- $?
    echo "$words"
    return "$1"
  }
}
# Sets $found to the last line of $1 that is a SLURM id, alone or before a `;`.
find_id() {
  found=
  while read -r each; do
    case ${each%%;*} in
      '' | *[!0-9]*) ;;
      *) found=$each ;;
    esac
  done <<END
$1
END
}

# shellcheck shell=sh
# Prints the registries that enroot has credentials for, one a line; nothing else of the file is looked at.

tr -s '[:blank:]' '[\n*]' <~/.config/enroot/.credentials 2>/dev/null |
  awk 'named { print; named = 0 } $0 == "machine" { named = 1 }'

# shellcheck shell=sh disable=SC2154
# Prints the row TAO_ROW of $real. Uses resolve_path.sh.

find "$real" -maxdepth 0 -printf "$TAO_ROW"

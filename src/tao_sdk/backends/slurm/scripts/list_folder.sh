# shellcheck shell=sh disable=SC2154
# Prints the row TAO_ROW of everything in the folder $real, or of the file. TAO_LINKS is the script for the links among them.
# Uses resolve_path.sh.

if [ -d "$real" ]; then
  cd -P -- "$real" || exit 1
  inside "$(pwd -P)"
  export TAO_REAL="$root"
  find . -mindepth 1 -maxdepth 1 ! -type l -printf "$TAO_ROW" -o -mindepth 1 -type l -exec sh -c "$TAO_LINKS" sh {} +
else
  find "$real" -maxdepth 0 -printf "$TAO_ROW"
fi

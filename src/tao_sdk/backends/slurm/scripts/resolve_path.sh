# shellcheck shell=sh disable=SC2034
# TAO_PATH is looked at, and must lie below TAO_ROOT where that is not "", else the script exits with 45. Sets $real to where
# it leads, and $root.

inside() {
  case "$1/" in
    "$root"/*) ;;
    *) exit 45 ;;
  esac
}
resolve() {
  real=$(realpath -e -- "$1" && echo .) || exit 1
  real=${real%??}
}
root='' real=$TAO_PATH
if [ -n "$TAO_ROOT" ]; then
  [ ! -L "$TAO_ROOT" ] || exit 45
  resolve "$TAO_ROOT"
  root=${real%/}
  resolve "$TAO_PATH"
  inside "$real"
fi

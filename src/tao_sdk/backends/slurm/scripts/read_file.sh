# shellcheck shell=sh disable=SC2154
# Prints TAO_LIMIT bytes, or all, of the file $real from byte TAO_FROM (the first is 1) on. Exits with 46 for what is no file.
# Uses resolve_path.sh.

if [ ! -r "$real" ]; then
  head -c 0 "$real" # says why
  exit 1
fi
[ -f "$real" ] || exit 46
exec 3<"$real"
[ -z "$TAO_ROOT" ] || inside "$(readlink /proc/$$/fd/3)"
[ -f /proc/$$/fd/3 ] || exit 46
if [ -n "$TAO_LIMIT" ]; then
  tail -c +"$TAO_FROM" <&3 | head -c "$TAO_LIMIT"
else
  tail -c +"$TAO_FROM" <&3
fi

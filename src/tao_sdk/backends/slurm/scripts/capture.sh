# shellcheck shell=sh
# capture SECTION COMMAND...: prints the command's exit code, the lengths of its output and of its words, then both.

capture() {
  section=$1
  shift
  words=$(mktemp) || exit 1
  out=$(mktemp) || exit 1
  "$@" >"$out" 2>"$words" </dev/null
  code=$?
  echo "=== $section $code $(wc -c <"$out") $(wc -c <"$words")"
  cat "$out" "$words"
  echo
  rm -f "$out" "$words"
}

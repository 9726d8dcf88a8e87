# shellcheck shell=sh disable=SC3013
# print_remains ATTEMPT RESULTS [over]: what an attempt has left in its folder and its results, one section for each part. An
# attempt that is over loses its secrets. A status.json or manifest that is older than the attempt is another's. The job may
# have written all of these: only plain files are read, no more of them than is wanted, and no longer than 10 seconds, as a
# pipe may have taken a file's place.

print_part() {
  if [ -s "$part" ]; then
    echo "=== $1 0 $(wc -c <"$part") 0"
    cat "$part"
    : >"$part"
  else
    echo "=== $1 0 0 0" # most jobs lack most parts, and thousands may have ended at once
  fi
  echo
}
is_plain_file() { [ -f "$1" ] && [ ! -L "$1" ]; }
newest_status() {
  timeout 20 find "$2" -maxdepth 4 -type f -name status.json -newer "$1/store" -printf '%T@ %p\n' 2>/dev/null |
    sort -n | tail -n 1
}
print_remains() {
  part=$(mktemp) || exit 1
  if is_plain_file "$1/exit"; then timeout 10 head -c 4096 "$1/exit" >"$part"; fi
  print_part exit
  status=
  [ ! -d "$2" ] || status=$(newest_status "$1" "$2")
  [ -z "$status" ] || timeout 10 tail -c 65536 "${status#* }" >"$part" # its last whole line counts
  print_part status
  manifest=$2/.tao/manifest.json
  if is_plain_file "$manifest" && [ "$manifest" -nt "$1/store" ]; then
    timeout 10 head -c 4000000 "$manifest" >"$part"
  fi
  print_part manifest
  [ ! -e "$1/resumes" ] || echo resumes >>"$part"
  [ ! -e "$1/killed" ] || echo killed >>"$part"
  [ ! -e "$1/started" ] || echo begun >>"$part"
  print_part marks
  rm -f "$part"
  [ "${3-}" != over ] || rm -f "$1/env.sh"
} 2>/dev/null

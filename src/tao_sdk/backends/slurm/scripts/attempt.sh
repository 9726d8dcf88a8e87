# shellcheck shell=sh disable=SC2154,SC2034
# What the scripts that submit, find, cancel and release an attempt share.
# Variables: a, the attempt's folder; k, its lock; store, whose it is; tao_stale, seconds.

read_line() {
  line=
  [ ! -s "$1" ] || read -r line <"$1" || :
}
is_strangers() {
  read_line "$a/store"
  [ -n "$line" ] && [ "$line" != "$store" ]
}
is_stale() {
  [ $(($(date +%s) - $(stat -c %Y "$k" 2>/dev/null || date +%s))) -gt "$tao_stale" ]
}

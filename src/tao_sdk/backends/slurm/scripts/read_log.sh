# shellcheck shell=sh disable=SC2154
# Prints "over|lives whole|more out-offset out-size err-offset err-size", then the bytes of stdout's file and of stderr's.
# With `tail` they are the last lines of both together, in that order; else both are seen at one moment, so that what stands
# before an event in stderr is never read after it. Exits with 44 where the folder is gone.
# Variables: logs, attempt: folders; name of the log; out_from, err_from: offsets, -1 for a file that is not wanted; tail, a
# number of lines or nothing; most, bytes of each file.

[ -d "$logs" ] || exit 44
life=lives
[ ! -e "$attempt/exit" ] || life=over

# Sets $at and $size of the bytes to print, and $all, the size of the file.
measure() {
  size=0 at=$2 all=
  if [ "$at" -lt 0 ] || [ ! -e "$1" ]; then return 0; fi
  all=$(stat -c %s "$1")
  if [ -n "$tail" ]; then
    at=$((all - $(tail -n "$tail" "$1" | wc -c)))
    [ $at -ge 0 ] || at=0
    tail=$((tail - $(tail -n "$tail" "$1" | grep -c '')))
    [ $tail -ge 0 ] || tail=0
  fi
  size=$((all - at))
  [ $size -ge 0 ] || size=0
  if [ $size -gt "$most" ]; then
    size=$most more=more
  fi
}
has_grown() { [ -n "$seen" ] && [ -z "$tail" ] && [ "$seen" != "$(stat -c %s "$logs/$name.err")" ]; }

for _ in 1 2 3; do
  more=whole
  measure "$logs/$name.err" "$err_from"
  err_at=$at err_size=$size seen=$all
  measure "$logs/$name.out" "$out_from"
  out_at=$at out_size=$size
  has_grown || break
done
echo "$life $more $out_at $out_size $err_at $err_size"
[ "$out_size" -eq 0 ] || tail -c +$((out_at + 1)) "$logs/$name.out" | head -c "$out_size"
[ "$err_size" -eq 0 ] || tail -c +$((err_at + 1)) "$logs/$name.err" | head -c "$err_size"
true

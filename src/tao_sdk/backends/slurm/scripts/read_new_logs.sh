# shellcheck shell=sh disable=SC2154
# read_new INDEX FOLDER OUT ERR: prints `=== index whole|more out-size err-size` and the bytes beyond the offsets, where the
# folder is there. stderr is measured first: what stands before an event in stderr is never read after it.
# Variable: most, bytes of each file.

measure() {
  size=0
  [ -s "$1" ] || return 0
  size=$(($(stat -c %s "$1") - $2))
  [ $size -ge 0 ] || size=0
  if [ $size -gt "$most" ]; then
    size=$most more=more
  fi
}
read_new() {
  [ -d "$2" ] || return 0
  more=whole
  measure "$2/main.err" "$4"
  err_size=$size
  measure "$2/main.out" "$3"
  out_size=$size
  echo "=== $1 $more $out_size $err_size"
  [ "$out_size" -eq 0 ] || tail -c +$(($3 + 1)) "$2/main.out" | head -c "$out_size"
  [ "$err_size" -eq 0 ] || tail -c +$(($4 + 1)) "$2/main.err" | head -c "$err_size"
}

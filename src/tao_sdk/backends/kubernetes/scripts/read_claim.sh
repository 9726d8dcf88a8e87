#!/bin/sh
# What a reader pod runs, in any image with a shell: looks at one path of a claim, and prints what it
# finds. Arguments: list or read; the path below the mount; for list how deep (0: all), for read the
# byte to begin with, counted from 1. Links that lead out of the claim are not followed.

tao_root=$(readlink -f /tao-claim)
tao_path=$(readlink -f "/tao-claim/$2") || tao_path=''
case "$tao_path/" in
  "$tao_root"/*) ;;
  *) echo "tao-missing"; exit 0 ;;
esac
[ -e "$tao_path" ] || { echo "tao-missing"; exit 0; }

if [ "$1" = read ]; then
  [ -f "$tao_path" ] || { echo "tao-missing"; exit 0; }
  echo "tao-begin"
  tail -c "+$3" "$tao_path" | base64 -w 0
  echo
  echo "tao-end"
  exit 0
fi

tao_newline='
'
set -- "$tao_path" "$3"
echo "tao-begin $tao_path"
if [ "$2" = 0 ]; then
  find "$1" -name "*$tao_newline*" -prune -o -exec stat -c '%f %s %Y %n' {} +
else
  find "$1" -maxdepth "$2" -name "*$tao_newline*" -prune -o -exec stat -c '%f %s %Y %n' {} +
fi
echo "tao-end"

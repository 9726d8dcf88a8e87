# shellcheck shell=sh
# Defines sleep SECONDS for an image without that program: bash waits, else python3. Where the image has none of the three, a
# time limit cannot be kept: the script says so and ends.

if command -v sleep >/dev/null; then
  :
elif command -v bash >/dev/null; then
  # shellcheck disable=SC2016
  sleep() { bash -c 'read -rt "$1" <> <(:)' tao "$1" || :; }
elif command -v python3 >/dev/null; then
  sleep() { python3 -ISc 'import sys, time; time.sleep(float(sys.argv[1]))' "$1"; }
else
  printf '@tao {"event": "failed", "time": %d, "code": "start.no_clock", "what": "%s", "next": "%s"}\n' "$(date +%s 2>/dev/null)" \
    'The image has neither sleep nor bash nor python3, so its time limit cannot be kept.' \
    'Use an image with one of them, or leave time_limit out.' >&2
  exit 125
fi

#!/bin/sh
# A stand-in for nvidia-container-cli: notes how it was called, and says in its help what MOCK_HELP says.
case " $* " in *" --help "*) echo "$MOCK_HELP"; exit 0 ;; esac
: > "$MOCK_CALLS"
for word; do printf '%s\n' "$word" >> "$MOCK_CALLS"; done
exit "${MOCK_EXIT:-0}"

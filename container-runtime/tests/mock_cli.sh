#!/bin/sh
# A stand-in for nvidia-container-cli: notes how it was called, and says in its help what MOCK_HELP says.
case " $* " in *" --help "*) [ -z "${MOCK_ASKED:-}" ] || echo asked >> "$MOCK_ASKED"; echo "$MOCK_HELP"; exit 0 ;; esac
: > "$MOCK_CALLS"
for word; do printf '%s\n' "$word" >> "$MOCK_CALLS"; done
[ -z "${MOCK_ENVIRONMENT:-}" ] || cat /proc/$$/environ > "$MOCK_ENVIRONMENT"
exit "${MOCK_EXIT:-0}"

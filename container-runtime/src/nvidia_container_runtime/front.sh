#!/bin/sh
# What needs no Python: every command that creates no container goes straight to the low-level runtime, as long as
# the configuration, PATH and programs are what the last full run saw. That run left its answer, with everything it
# was derived from, in a file of root's; anything that differs, or that a log line may have to be written for, is
# Python's. Names start with _nvcr_ because an assignment to a name that is in the environment would change it there.
_nvcr_full() {
    [ -x @QUICK@ ] || exec /usr/bin/python3 -ISX utf8 @LIBRARY@/launch.py "${0##*/}" "$@"
    exec @QUICK@ -ISX utf8 @LAUNCH@ "${0##*/}" "$@"
}
for _nvcr_word; do
    case $_nvcr_word in create | -*debug* | -*version*) _nvcr_full "$@" ;; esac
done
if [ -f @STATE@ ] && [ -O @STATE@ ] && [ ! -L @STATE@ ] && [ -O @FOLDER@ ] && . @STATE@ && _nvcr_same; then
    exec "$_nvcr_runtime" "$@"
fi
_nvcr_full "$@"

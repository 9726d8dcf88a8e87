# shellcheck shell=sh disable=SC2154
# Follows cancel.sh, and prints what that has seen in the form of look.sh; sacct is asked unless squeue says CANCELLED.
# Variable: results, the attempt's folder. Function: ask_sacct. Uses cancel.sh, states.sh, capture.sh and remains.sh.

printf 'SEEN %s\n=== squeue 0 %d 0\n%s\n' "$id" ${#row} "$row"
case $s in
  CANCELLED*) echo '=== sacct 0 0 0' ;;
  *) capture sacct ask_sacct ;;
esac
over=
if has_ended "$s"; then over=over; fi
print_remains "$a" "$results" $over

# shellcheck shell=sh disable=SC2034
# limit_time FOLDER SECONDS PART GRACE: ends the command after SECONDS and PART of one, kills it after GRACE more, and notes in
# FOLDER that its time was up. In the background of the shell that runs the command: $$ leads its group.
# It ends with that shell, which is its parent: no other process that has got its pid since is ever signalled.

is_child() {
  read -r pid name state parent rest </proc/self/stat && [ "$parent" = $$ ]
}
nap() {
  end=$(($(date +%s) + $1))
  while is_child && left=$((end - $(date +%s))) && [ "$left" -gt 0 ]; do
    [ "$left" -le 5 ] || left=5 # after which it has noticed that its command has ended
    sleep "$left"
  done
  is_child || exit 0
}
limit_time() {
  sleep "$3"
  nap "$2"
  trap '' TERM
  : >"$1/timed_out"
  kill -TERM $$ # which tells the others: run_command.sh
  nap "$4"
  kill -KILL -$$ 2>/dev/null || kill -KILL $$
}

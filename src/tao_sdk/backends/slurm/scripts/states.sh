# shellcheck shell=sh
# has_ended STATE: whether squeue's state of a job is an end.

has_ended() {
  case $1 in
    CANCELLED* | COMPLETED | FAILED | TIMEOUT | NODE_FAIL | PREEMPTED) return 0 ;;
    BOOT_FAIL | DEADLINE | OUT_OF_MEMORY | REVOKED) return 0 ;;
  esac
  return 1
}

#!/usr/bin/env bash
# The script of the skill, at the path where older documents look for it below the bank.
set -eu
bank=$(CDPATH="" cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../.." && pwd)
script=tao-setup-nvidia-gpu-host/scripts/setup-nvidia-gpu-host.sh
[ -f "$bank/skills/platform/$script" ] && exec bash "$bank/skills/platform/$script" "$@"
exec bash "$bank/skills/$script" "$@"

# shellcheck shell=sh disable=SC2154
# Adds the lines on stdin to enroot's credentials. What is there for other registries stays. The file is never open to others,
# and never half written. Variable: registries, an expression for the names whose lines are replaced.

umask 077
mkdir -p ~/.config/enroot && cd ~/.config/enroot || exit 1
{
  [ ! -e .credentials ] || grep -v -E "^machine ($registries) " .credentials
  cat
} >.credentials.$$
chmod 600 .credentials.$$ && mv -f .credentials.$$ .credentials

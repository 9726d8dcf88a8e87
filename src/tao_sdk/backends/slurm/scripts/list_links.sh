# shellcheck shell=sh
# Prints the row of what each link leads to below TAO_REAL, with the place if that is a folder; else the row of the link itself.

for link; do
  real=$(realpath -e -- "$link" 2>/dev/null && echo .)
  real=${real%??} leads=
  case "$real/" in
    "$TAO_REAL"/*)
      seen=$(find "$real" -maxdepth 0 -printf "%y %s %T@")
      [ ! -d "$real" ] || leads=${real#"$TAO_REAL"}/
      ;;
    *) seen=$(find "$link" -maxdepth 0 -printf "%y %s %T@") ;;
  esac
  [ -z "$seen" ] || printf '%s\0%s\0%s\0' "$seen" "$link" "$leads"
done

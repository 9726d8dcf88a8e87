# shellcheck shell=sh disable=SC2154
# Says which SLURM job an attempt is: NONE only when its folder, squeue and, where there is accounting, sacct have answered.
# Variables: a, k and store of the attempt. Uses attempt.sh, answers.sh and lookup.sh.

said=$(stat "$a" 2>&1 >/dev/null) || case $said in
  *"No such file"*) ;;
  *)
    echo "DOUBT $said"
    exit 0
    ;;
esac
if is_strangers; then
  echo STRANGER
  exit 0
fi
read_line "$a/slurm_id"
if [ -n "$line" ]; then
  echo "ID $line"
  exit 0
fi
id=$(lookup) || {
  echo "DOUBT $id"
  exit 0
}
if [ -n "$id" ] && [ -s "$a/store" ]; then
  echo "ID $id"
  exit 0
fi
if [ -n "$id" ]; then
  tag=$(timeout 25 squeue --noheader --states=all --jobs="$id" --format=%k 2>/dev/null)
  case $tag in
    "tao:$store") echo "ID $id" ;;
    tao:*) echo STRANGER ;;
    *) echo NONE ;;
  esac
  exit 0
fi
if [ -e "$k" ]; then echo BEGUN; else echo NONE; fi

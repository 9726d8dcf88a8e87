# shellcheck shell=bash disable=SC2154
# Runs a command in an image with enroot by itself: IMAGE COMMAND... The image is unpacked on the node under a name of its own,
# and removed however the task ends. SIGTERM goes to the command. Variable: words, an array for `enroot start`.

name=tao-$SLURM_JOB_ID-$SLURM_STEP_ID-$SLURM_PROCID image=$1 file='' pid='' passed=()
shift
trap 'enroot remove --force "$name" >/dev/null 2>&1; [ -z "$file" ] || rm -f "$file"' EXIT
trap '[ -z "$pid" ] || kill -TERM "$pid"' TERM
case $image in
  docker://*)
    file=${TMPDIR:-/tmp}/$name.sqsh
    enroot import --output "$file" "$image" || exit
    image=$file
    ;;
esac
enroot create --name "$name" "$image" >/dev/null || exit
for each in $(compgen -e SLURM_; compgen -e CUDA_VISIBLE_DEVICES); do
  passed+=(--env "$each")
done
enroot start "${words[@]}" "${passed[@]}" "$name" "$@" &
pid=$!
wait "$pid"
code=$?
while kill -0 "$pid" 2>/dev/null; do
  wait "$pid"
  code=$?
done
exit "$code"

# shellcheck shell=sh disable=SC2154,SC2034
# Unless the image's file is there, the job depends on a conversion, one under way or a new one: sets $after to words for
# sbatch. Where that is refused the nodes fetch the image by themselves, and stderr says so.
# Variables: tao_image_file; tao_convert, anew or once; tao_conversion, the name of its job; tao_conversion_log; tao_reference
# of the image in its registry. Uses answers.sh.

printf %s "$tao_image_file" >image
if [ "$tao_convert" = anew ] || [ ! -s "$tao_image_file" ]; then
  (umask 022 && mkdir -p -- "$(dirname -- "$tao_image_file")")
  find_id "$(squeue --noheader --user="$(id -un)" --name="$tao_conversion" \
    --states=PENDING,CONFIGURING,RUNNING --format=%A 2>/dev/null)"
  converts=$found
  if [ -z "$converts" ]; then
    seen=$(sbatch --parsable image.sbatch 2>image.err) || seen=
    find_id "$seen"
    converts=$found
  fi
  if [ -n "$converts" ]; then
    after="--dependency=afterok:${converts%%;*} --kill-on-invalid-dep=yes"
    ln -sfn -- "$tao_conversion_log" image.log
  else
    echo "tao: warning: the image is not converted, every node fetches it from its registry: $(cat image.err)" >&2
    printf %s "$tao_reference" >image
  fi
fi

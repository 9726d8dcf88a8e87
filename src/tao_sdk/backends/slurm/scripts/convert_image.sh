# shellcheck shell=bash disable=SC2154
# Makes one file of an image, for every job that needs it, below the directives of sbatch. Conversions of one image run one
# after the other (`singleton`): the second finds the file of the first, and ends. The file appears whole or not at all.
# Variables: image, the file; source, its name; convert: once, or anew, and then a file that is younger than this script is new
# enough. Function: import_image writes $partial.

partial=$image.partial-$SLURM_JOB_ID
made_by=$SLURM_SUBMIT_DIR/image.sbatch
if [ -s "$image" ] && { [ "$convert" = once ] || [ "$image" -nt "$made_by" ]; }; then exit 0; fi
trap 'rm -f -- "$partial"' EXIT
find "$(dirname -- "$image")" -maxdepth 1 -name '*.partial-*' -user "$(id -un)" -mmin +180 -delete 2>/dev/null
if ! import_image || [ ! -s "$partial" ]; then
  echo "tao: $source could not be converted" >&2
  exit 1
fi
chmod 644 -- "$partial" && mv -f -- "$partial" "$image"

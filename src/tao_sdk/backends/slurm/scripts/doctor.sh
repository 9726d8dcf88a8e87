# shellcheck shell=sh disable=SC2154
# What the doctor asks beside the survey. Variables: base, or nothing; images, the folder of the converted ones; account and
# partition for a job, or nothing. Uses survey.sh.

section missing
for each in sbatch srun squeue sacct scancel sinfo scontrol tar gzip; do
  command -v $each >/dev/null || echo $each
done
section ping
timeout 20 scontrol ping

mark=$base/.tao-doctor.$$
can_write() {
  { mkdir -p "$base" && printf '' >"$mark"; } 2>&1 && echo yes
}
# The smallest possible job, which looks whether its node sees the file that can_write has made.
ask_a_node() {
  # shellcheck disable=SC2016
  timeout 30 srun --quiet --immediate=10 --nodes=1 --ntasks=1 --time=1 --mem=64M --input=none --job-name=tao-doctor \
    ${partition:+"--partition=$partition"} ${account:+"--account=$account"} \
    sh -c 'if [ -e "$0" ]; then echo "visible from $(hostname)"; else echo "invisible from $(hostname)"; fi' "$mark" 2>&1
  rm -f "$mark"
}
if [ -n "$base" ]; then
  section writable
  can_write
  section node
  ask_a_node
  section quota
  lfs quota -q -u "$(id -un)" "$base" || quota -w | tail -n 1
  section space
  df -Pk "$base" | tail -n 1
  section images
  find "$images" -maxdepth 1 -name '*.s[qi][sf]*' -printf '%s %f\n'
fi

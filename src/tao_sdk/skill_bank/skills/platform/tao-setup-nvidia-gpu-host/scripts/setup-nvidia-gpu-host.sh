#!/usr/bin/env bash
# Checks that this machine can run GPU containers: NVIDIA driver, NVIDIA Container Toolkit, Docker. With --install
# it installs what is missing, after it has shown the commands and was told to go on.
#
# Order of this file: targets, words, the machine, checks, the plan for each family, arguments, main.

set -u -o pipefail
export LC_ALL=C
umask 022

# --- Targets. `tao doctor` reads the defaults from these lines.

NVIDIA_DRIVER_BRANCH=${NVIDIA_DRIVER_BRANCH:-580}
NVIDIA_DRIVER_PACKAGE_DEBIAN=${NVIDIA_DRIVER_PACKAGE_DEBIAN:-nvidia-open-580}
NVIDIA_DRIVER_PACKAGE_RHEL=${NVIDIA_DRIVER_PACKAGE_RHEL:-nvidia-driver-cuda}
NVIDIA_DRIVER_KMOD_RHEL=${NVIDIA_DRIVER_KMOD_RHEL:-kmod-nvidia-open-dkms}
NVIDIA_DRIVER_PACKAGE_SUSE=${NVIDIA_DRIVER_PACKAGE_SUSE:-nvidia-open-driver-G06-signed-kmp-default}
NVIDIA_DRIVER_TOOLS_SUSE=${NVIDIA_DRIVER_TOOLS_SUSE:-nvidia-compute-utils-G06}
NVIDIA_CUDA_RELEASE=${NVIDIA_CUDA_RELEASE:-13.0}
NVIDIA_CUDA_PACKAGE=${NVIDIA_CUDA_PACKAGE:-cuda-toolkit-13-0}
NVIDIA_CUDA_PATH=${NVIDIA_CUDA_PATH:-/usr/local/cuda-13.0}
NVIDIA_CONTAINER_TOOLKIT_VERSION=${NVIDIA_CONTAINER_TOOLKIT_VERSION:-1.19.0-1}
NVIDIA_CUDA_REPOSITORY=${NVIDIA_CUDA_REPOSITORY:-https://developer.download.nvidia.com/compute/cuda/repos}
NVIDIA_CONTAINER_TOOLKIT_REPOSITORY=${NVIDIA_CONTAINER_TOOLKIT_REPOSITORY:-https://nvidia.github.io/libnvidia-container}
DOCKER_PACKAGE=${DOCKER_PACKAGE:-}
DOCKER_PACKAGE_DEBIAN=${DOCKER_PACKAGE_DEBIAN:-${DOCKER_PACKAGE:-docker.io}}

TOOLKIT_PACKAGES=(
  nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools libnvidia-container1
)
ANSWER_SECONDS=15 # for a program that only says what it sees

usage() {
  cat <<'TEXT'
Usage: setup-nvidia-gpu-host.sh [OPTION]...

  --backend NAME          docker (default; also local-docker) or kubernetes (also k8s)
  --check-only            only look (default)
  --install               install what is missing, after a question
  -y, --yes               do not ask
  --dry-run               print the commands of --install, and run none
  --json                  print one JSON object
  --with-cuda             the CUDA Toolkit has to be on the host too; containers carry their own
  --strict                as --with-cuda, and nothing newer than the targets is accepted
  --skip-docker-install   do not install Docker
  --skip-docker-config    do not register the NVIDIA runtime with Docker
  --skip-docker-group     do not add the user to the group docker
  -h, --help

Exit code: 0 ready, or the commands are printed; 1 not ready, or stopped; 2 wrong arguments or settings.
TEXT
}

# --- Words: what is printed, as lines or as JSON

readonly LINES_FD=3 # lines for people; nowhere with --json
severities=()
codes=()
texts=()
reasons=()
commands=()

# What a file or a program said: one line of printable ASCII, 200 characters at most.
printable() {
  local text=${1%%$'\n'*}
  text=${text//[^ -~]/?}
  printf '%s' "${text:0:200}"
}

say() { printf '%s\n' "$1" >&"$LINES_FD"; }

# report OK|MISSING|WARN|INFO CODE TEXT [REASON]
report() {
  severities+=("$1")
  codes+=("$2")
  texts+=("$3")
  reasons+=("${4:-}")
  say "$1: $3${4:+ ($4)}"
}

is_ready() {
  local severity
  for severity in ${severities[@]+"${severities[@]}"}; do
    [[ $severity == MISSING ]] && return 1
  done
  return 0
}

fail() {
  printf 'error: %s\n' "$1" >&2
  exit "${2:-1}"
}

# The words as a shell reads them.
quoted() {
  local word line=""
  for word in "$@"; do
    if [[ ! $word =~ ^[A-Za-z0-9_@%+=:,./-]+$ ]]; then
      word="'${word//\'/\'\\\'\'}'"
    fi
    line+="${line:+ }$word"
  done
  printf '%s' "$line"
}

json_string() {
  local text=$1
  text=${text//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//$'\n'/\\n}
  printf '"%s"' "${text//[^ -~]/?}"
}

json_boolean() { if "$@"; then printf true; else printf false; fi; }

# The keys of a finding are those of `tao doctor --json`.
json_finding() {
  local severity=ok text=${texts[$1]%.}. reason=${reasons[$1]:+${reasons[$1]}.} command=""
  case ${severities[$1]} in
    MISSING) severity=error text="MISSING: $text" command=$(install_command) ;;
    WARN) severity=warning ;;
  esac
  printf '{"severity": "%s", "code": "%s", "what": %s, "evidence": %s, "fix": %s, "next": %s, "hint": %s}' \
    "$severity" "${codes[$1]}" "$(json_string "$text")" "$(json_string "$reason")" \
    "$(json_string "$command")" "$(json_string "$command")" "$(json_string "$(hint_of "$1")")"
}

hint_of() {
  [[ ${severities[$1]} == WARN ]] && printf '%s' \
    "The cluster needs NVIDIA's GPU Operator or device plugin. Look with kubectl from a machine that reaches it."
}

json_commands() {
  local index separator=""
  for index in ${commands[@]+"${!commands[@]}"}; do
    printf '%s%s' "$separator" "$(json_string "${commands[$index]}")"
    separator=", "
  done
}

print_json() {
  local index separator=""
  printf '{"schema": 1, "ready": %s, "backend": "%s", "strict": %s, ' \
    "$(json_boolean is_ready)" "$backend" "$(json_boolean test "$strict" = yes)"
  printf '"host": {"name": %s, "family": "%s", "manager": "%s", "machine": %s}, ' \
    "$(json_string "$os_name")" "$family" "$manager" "$(json_string "$machine")"
  printf '"commands": [%s], "findings": [' "$(json_commands)"
  for index in "${!severities[@]}"; do
    printf '%s%s' "$separator" "$(json_finding "$index")"
    separator=", "
  done
  printf ']}\n'
}

# The command that installs what is missing, with the flags of this call.
install_command() {
  local words=(bash "$script_path" --backend "$backend" --install)
  [[ $strict == yes ]] && words+=(--strict)
  [[ $strict == no && $with_cuda == yes ]] && words+=(--with-cuda)
  [[ $EUID == 0 ]] || words=(sudo "${words[@]}")
  quoted "${words[@]}"
}

# --- The machine

os_id="" os_like="" os_version="" os_codename="" ubuntu_codename="" os_name="unknown"
family=unknown manager=none machine=""

# /etc/os-release is read, never run.
read_os_release() {
  local file=/etc/os-release line key value count=0
  [[ -r $file ]] || file=/usr/lib/os-release
  [[ -r $file ]] || return 0
  while IFS= read -r line && ((count++ < 100)); do
    [[ $line =~ ^([A-Z_]+)=(.*)$ ]] || continue
    key=${BASH_REMATCH[1]} value=${BASH_REMATCH[2]}
    value=${value#[\"\']}
    value=${value%[\"\']}
    if [[ $key == PRETTY_NAME ]]; then
      os_name=$(printable "$value")
      continue
    fi
    [[ $value =~ ^[A-Za-z0-9._\ -]{0,80}$ ]] || continue
    case $key in
      ID) os_id=$value ;;
      ID_LIKE) os_like=$value ;;
      VERSION_ID) os_version=$value ;;
      VERSION_CODENAME) os_codename=$value ;;
      UBUNTU_CODENAME) ubuntu_codename=$value ;;
    esac
  done <"$file"
}

family_of() {
  case $1 in
    ubuntu | debian | linuxmint | pop | raspbian) printf debian ;;
    fedora | rhel | rocky | almalinux | centos | ol | amzn) printf rhel ;;
    opensuse* | sles | sled | suse) printf suse ;;
    arch | manjaro | endeavouros) printf arch ;;
  esac
}

look_at_machine() {
  local id
  machine=$(printable "$(uname -m)")
  read_os_release
  # ID_LIKE is a list of words
  # shellcheck disable=SC2086
  for id in "$os_id" $os_like; do
    family=$(family_of "$id")
    [[ -n $family ]] && break
  done
  family=${family:-unknown}
  case $family in
    debian) manager=apt-get ;;
    rhel) if has dnf; then manager=dnf; else manager=yum; fi ;;
    suse) manager=zypper ;;
    arch) manager=pacman ;;
  esac
  say "INFO: detected $os_name (family=$family, manager=$manager)"
}

has() { command -v "$1" >/dev/null 2>&1; }

# What a program prints; nothing where it is not here, hangs or fails.
answer() { timeout --kill-after=5 "$ANSWER_SECONDS" "$@" 2>/dev/null </dev/null; }

# is_older A B: true if version A is older than B
is_older() {
  [[ $1 != "$2" && $(printf '%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]
}

# --- Checks: each sets a state (ok, newer, older or missing) and reports one line

driver_state=missing cuda_state=missing toolkit_state=missing docker_state=missing runtime_state=missing

# report_version CODE NAME TARGET STATE REASON
report_version() {
  local code=$1 name=$2 target=$3 state=$4 reason=$5
  case $state in
    ok) report OK "$code" "$name $target" ;;
    newer)
      if [[ $strict == yes ]]; then
        report MISSING "$code" "$name $target" "$reason, and --strict accepts only $target"
      else
        report OK "$code" "$name $target or newer" "$reason"
      fi
      ;;
    *) report MISSING "$code" "$name $target" "$reason" ;;
  esac
}

# state_of VERSION TARGET: by as many numbers as the target has
state_of() {
  if [[ $1 == "$2" || $1 == "$2".* ]]; then
    printf ok
  elif is_older "$1" "$2"; then
    printf older
  else
    printf newer
  fi
}

check_driver() {
  local answered reason="nvidia-smi is not here"
  if has nvidia-smi; then
    answered=$(timeout --kill-after=5 "$ANSWER_SECONDS" nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>&1 </dev/null)
    answered=$(printable "$answered")
    reason=${answered:-nvidia-smi does not answer}
    if [[ $answered =~ ^[0-9]+(\.[0-9]+)+$ ]]; then
      driver_state=$(state_of "$answered" "$NVIDIA_DRIVER_BRANCH")
      reason="The driver is $answered"
    fi
  fi
  report_version host.driver "NVIDIA driver branch" "$NVIDIA_DRIVER_BRANCH" "$driver_state" "$reason"
}

# The release of an nvcc, such as 13.0
nvcc_release() {
  local answered
  answered=$(answer "$1" --version)
  [[ $answered =~ release\ ([0-9]+\.[0-9]+) ]] && printf '%s' "${BASH_REMATCH[1]}"
}

check_cuda() {
  local nvcc release="" reason="No nvcc of it is here"
  for nvcc in "$NVIDIA_CUDA_PATH/bin/nvcc" /usr/local/cuda/bin/nvcc; do
    [[ -x $nvcc ]] && release=$(nvcc_release "$nvcc")
    [[ -n $release ]] && break
    [[ $strict == yes ]] && break # the documents look at one place
  done
  if [[ -n $release ]]; then
    cuda_state=$(state_of "$release" "$NVIDIA_CUDA_RELEASE")
    reason="$nvcc is $release"
  fi
  if [[ $cuda_state == ok ]]; then
    report OK host.cuda "CUDA Toolkit $NVIDIA_CUDA_RELEASE at ${nvcc%/bin/nvcc}"
  elif [[ $with_cuda == yes ]]; then
    report_version host.cuda "CUDA Toolkit" "$NVIDIA_CUDA_RELEASE" "$cuda_state" "$reason"
  else
    report INFO host.cuda "CUDA Toolkit $NVIDIA_CUDA_RELEASE is not needed on the host" "Images have their own"
  fi
}

# "installed VERSION" of a Debian package
# shellcheck disable=SC2016 # dpkg-query puts in the values
installed_deb() { answer dpkg-query --show --showformat='${db:Status-Status} ${Version}' "$1"; }

toolkit_version() {
  local answered
  answered=$(installed_deb nvidia-container-toolkit)
  if [[ $answered =~ ^installed\ ([0-9]+\.[0-9]+\.[0-9]+) ]]; then
    printf '%s' "${BASH_REMATCH[1]}"
    return
  fi
  answered=$(answer rpm --query --queryformat '%{VERSION}' nvidia-container-toolkit)
  if [[ $answered =~ ^([0-9]+\.[0-9]+\.[0-9]+)$ ]]; then
    printf '%s' "${BASH_REMATCH[1]}"
    return
  fi
  answered=$(answer nvidia-ctk --version)
  [[ $answered =~ ([0-9]+\.[0-9]+\.[0-9]+) ]] && printf '%s' "${BASH_REMATCH[1]}"
}

check_toolkit() {
  local version target=${NVIDIA_CONTAINER_TOOLKIT_VERSION%%-*} reason="It is not installed"
  version=$(toolkit_version)
  if [[ -n $version ]]; then
    toolkit_state=$(state_of "$version" "$target")
    reason="The version is $version"
  fi
  report_version host.container_toolkit "NVIDIA Container Toolkit" "$target" "$toolkit_state" "$reason"
}

# Where this family of systems has Docker.
docker_source() {
  case $family in
    debian) printf 'Its package here is %s' "$DOCKER_PACKAGE_DEBIAN" ;;
    rhel)
      printf 'Its package here is %s' "$(rhel_docker_package)"
      [[ $(rhel_docker_package) != docker-ce ]] || printf ", from Docker's own repository"
      ;;
    suse) printf 'Its package here is %s' "${DOCKER_PACKAGE:-docker}" ;;
    *) printf 'See https://docs.docker.com/engine/install/' ;;
  esac
}

check_docker() {
  if ! has docker; then
    report MISSING host.docker "Docker is not installed." "$(docker_source)"
    return
  fi
  docker_state=ok
  [[ ${DOCKER_HOST:-} == unix://* ]] || unset DOCKER_HOST # another machine's Docker is not this host's
  local runtimes
  runtimes=$(answer docker info --format '{{json .Runtimes}}') ||
    runtimes=$(answer sudo -n docker info --format '{{json .Runtimes}}')
  if [[ $runtimes == *'"nvidia"'* ]]; then
    runtime_state=ok
    report OK host.docker_runtime "Docker NVIDIA runtime configured"
  elif [[ $runtimes == *'{'* ]]; then
    report MISSING host.docker_runtime "Docker NVIDIA runtime not configured"
  else
    docker_state=unreachable
    report MISSING host.docker_runtime "Docker NVIDIA runtime not configured or Docker unreachable"
  fi
}

# What a cluster has is not of this machine, so it never decides.
check_kubernetes() {
  if ! has kubectl; then
    report WARN host.kubernetes "kubectl not found; cannot check cluster GPU capacity"
    return
  fi
  local counts
  counts=$(answer kubectl get nodes --output 'jsonpath={.items[*].status.allocatable.nvidia\.com/gpu}')
  if [[ $counts =~ [1-9] ]]; then
    report OK host.kubernetes "Kubernetes reports nvidia.com/gpu allocatable"
  else
    report WARN host.kubernetes "Kubernetes does not report nvidia.com/gpu allocatable"
  fi
}

check_host() {
  severities=() codes=() texts=() reasons=()
  driver_state=missing cuda_state=missing toolkit_state=missing docker_state=missing runtime_state=missing
  check_driver
  check_cuda
  check_toolkit
  if [[ $backend == docker ]]; then check_docker; else check_kubernetes; fi
}

# --- The plan. The same functions print the commands and run them, so that what was shown is what is done.

acting=no # yes: run the commands

# One command, as root. The first that fails ends the installation.
perform() {
  local line words=("$@") code
  [[ $EUID == 0 ]] || words=(sudo -n "$@")
  line=$(quoted "${words[@]}")
  if [[ $acting == no ]]; then
    commands+=("$line")
    return
  fi
  printf '+ %s\n' "$line" >&2
  "${words[@]}" </dev/null >&2
  code=$?
  [[ $code == 0 ]] && return
  printf 'error: this command ended with exit code %s: %s\n' "$code" "$line" >&2
  printf 'Nothing after it was run. Mend the cause, then run the same again: what is done is not done twice.\n' >&2
  exit 1
}

# write_file PATH LINE: whole or not at all
write_file() {
  # shellcheck disable=SC2016 # the words are those of the inner shell
  perform sh -c 'umask 022 && printf "%s\n" "$1" >"$2.part" && mv -f "$2.part" "$2"' sh "$2" "$1"
}

# fetch URL PATH: whole or not at all
fetch() {
  if [[ $family == debian ]]; then # apt brings a program for it; a bare host has no curl
    perform /usr/lib/apt/apt-helper download-file "$1" "$2.part"
  else
    perform curl --fail --silent --show-error --location --proto-redir =https --retry 3 --output "$2.part" "$1"
  fi
  perform chmod 0644 "$2.part"
  perform mv -f "$2.part" "$2"
}

is_needed() { [[ $1 == missing || $1 == older ]]; }
needs_driver() { is_needed "$driver_state" && ! is_wsl; }
needs_cuda() { [[ $with_cuda == yes ]] && is_needed "$cuda_state"; }
needs_toolkit() { is_needed "$toolkit_state"; }
needs_docker() { [[ $backend == docker && $docker_state == missing && $skip_docker_install == no ]]; }
needs_registration() {
  [[ $backend == docker && $runtime_state == missing && $skip_docker_config == no ]] || return 1
  [[ $docker_state != missing ]] || needs_docker
}

# On WSL the driver is that of Windows, and a Linux driver would break it.
is_wsl() { [[ $(uname -r) == *[Mm]icrosoft* ]]; }

kernel() {
  local release
  release=$(uname -r)
  [[ $release =~ ^[A-Za-z0-9][A-Za-z0-9.+_~-]*$ ]] || fail "the kernel's name cannot be used: $(printable "$release")"
  printf '%s' "$release"
}

# The folder of NVIDIA's repository for this system, such as ubuntu2404; empty where there is none.
repository_id() {
  local major=${os_version%%.*}
  case $os_id in
    ubuntu) [[ $os_version =~ ^[0-9]{2}\.[0-9]{2}$ ]] && printf 'ubuntu%s' "${os_version/./}" && return ;;
    debian) [[ $major =~ ^[0-9]+$ ]] && printf 'debian%s' "$major" && return ;;
    fedora) [[ $major =~ ^[0-9]+$ ]] && printf 'fedora%s' "$major" && return ;;
    amzn) [[ $major == 2023 ]] && printf 'amzn2023' && return ;;
    rhel | rocky | almalinux | centos | ol) [[ $major =~ ^[0-9]+$ ]] && printf 'rhel%s' "$major" && return ;;
    opensuse-leap) [[ $major =~ ^[0-9]{2}$ ]] && printf 'opensuse%s' "$major" && return ;;
    sles | sled) [[ $major =~ ^[0-9]{2}$ ]] && printf 'sles%s' "$major" && return ;;
  esac
  [[ $family == debian ]] || return 0
  case ${ubuntu_codename:-$os_codename} in
    focal) printf ubuntu2004 ;;
    jammy) printf ubuntu2204 ;;
    noble) printf ubuntu2404 ;;
    bullseye) printf debian11 ;;
    bookworm | trixie) printf debian12 ;;
  esac
}

# NVIDIA's name of this machine's architecture; empty where it has no packages.
repository_machine() {
  case $machine in
    x86_64) printf x86_64 ;;
    aarch64) printf sbsa ;;
  esac
}

cuda_repository() { printf '%s/%s/%s' "$NVIDIA_CUDA_REPOSITORY" "$(repository_id)" "$(repository_machine)"; }

plan_installation() {
  "plan_$family"
  if [[ $backend == docker ]]; then plan_docker; fi
  if needs_driver; then plan_module; fi
}

APT=(
  env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300
  -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold
)

plan_debian() {
  [[ -z $(answer dpkg --audit) ]] || perform env DEBIAN_FRONTEND=noninteractive dpkg --configure -a
  perform "${APT[@]}" update
  perform "${APT[@]}" install --yes ca-certificates
  if needs_driver || needs_cuda; then plan_debian_cuda_repository; fi
  if needs_toolkit; then plan_debian_toolkit_repository; fi
  perform "${APT[@]}" update
  local packages=() name
  needs_driver && packages+=("linux-headers-$(kernel)" "nvidia-driver-pinning-$NVIDIA_DRIVER_BRANCH" "$NVIDIA_DRIVER_PACKAGE_DEBIAN")
  needs_cuda && packages+=("$NVIDIA_CUDA_PACKAGE")
  if needs_toolkit; then
    for name in "${TOOLKIT_PACKAGES[@]}"; do packages+=("$name=$NVIDIA_CONTAINER_TOOLKIT_VERSION"); done
  fi
  needs_docker && packages+=("$DOCKER_PACKAGE_DEBIAN")
  [[ ${#packages[@]} == 0 ]] || perform "${APT[@]}" install --yes "${packages[@]}"
}

plan_debian_cuda_repository() {
  [[ $(installed_deb cuda-keyring) == "installed "* ]] && return
  local package=/var/cache/apt/archives/cuda-keyring_1.1-1_all.deb
  fetch "$(cuda_repository)/cuda-keyring_1.1-1_all.deb" "$package"
  perform env DEBIAN_FRONTEND=noninteractive dpkg --install "$package"
}

plan_debian_toolkit_repository() {
  local key=/usr/share/keyrings/nvidia-container-toolkit-keyring.asc
  local list=/etc/apt/sources.list.d/nvidia-container-toolkit.list
  # Two entries of one repository with different keys stop apt.
  grep -rqs "^[^#]*$NVIDIA_CONTAINER_TOOLKIT_REPOSITORY" /etc/apt/sources.list /etc/apt/sources.list.d && return
  fetch "$NVIDIA_CONTAINER_TOOLKIT_REPOSITORY/gpgkey" "$key"
  # apt puts the architecture in the place of $(ARCH)
  # shellcheck disable=SC2016
  write_file "$list" "deb [signed-by=$key] $NVIDIA_CONTAINER_TOOLKIT_REPOSITORY/stable/deb/"'$(ARCH) /'
}

plan_rhel() {
  has curl || perform "$manager" install -y curl
  if needs_driver || needs_cuda; then
    fetch "$(cuda_repository)/cuda-$(repository_id).repo" "/etc/yum.repos.d/cuda-$(repository_id).repo"
  fi
  if needs_driver; then
    case $os_id in rocky | almalinux | centos) perform "$manager" install -y epel-release ;; esac # it has dkms
    perform "$manager" install -y "kernel-devel-$(kernel)" kernel-headers
  fi
  local toolkit_repository=/etc/yum.repos.d/nvidia-container-toolkit.repo
  if needs_toolkit; then
    fetch "$NVIDIA_CONTAINER_TOOLKIT_REPOSITORY/stable/rpm/nvidia-container-toolkit.repo" "$toolkit_repository"
  fi
  local packages=()
  needs_driver && packages+=("$NVIDIA_DRIVER_PACKAGE_RHEL" "$NVIDIA_DRIVER_KMOD_RHEL")
  add_rpm_packages
  if needs_docker; then
    plan_rhel_docker_repository
    packages+=("$(rhel_docker_package)")
  fi
  [[ ${#packages[@]} == 0 ]] || perform "$manager" install -y "${packages[@]}"
}

# Adds to `packages` of the caller.
add_rpm_packages() {
  local name
  needs_cuda && packages+=("$NVIDIA_CUDA_PACKAGE")
  needs_toolkit || return 0
  for name in "${TOOLKIT_PACKAGES[@]}"; do packages+=("$name-$NVIDIA_CONTAINER_TOOLKIT_VERSION"); done
}

rhel_docker_package() {
  case $os_id in
    fedora) printf '%s' "${DOCKER_PACKAGE:-moby-engine}" ;;
    amzn) printf '%s' "${DOCKER_PACKAGE:-docker}" ;;
    *) printf '%s' "${DOCKER_PACKAGE:-docker-ce}" ;;
  esac
}

plan_rhel_docker_repository() {
  [[ $(rhel_docker_package) == docker-ce ]] || return 0
  local name=centos
  [[ $os_id == rhel || $os_id == fedora ]] && name=$os_id
  fetch "https://download.docker.com/linux/$name/docker-ce.repo" /etc/yum.repos.d/docker-ce.repo
}

plan_suse() {
  has curl || perform zypper --non-interactive install curl
  if needs_driver || needs_cuda; then
    fetch "$(cuda_repository)/cuda-$(repository_id).repo" "/etc/zypp/repos.d/cuda-$(repository_id).repo"
  fi
  local toolkit_repository=/etc/zypp/repos.d/nvidia-container-toolkit.repo
  if needs_toolkit; then
    fetch "$NVIDIA_CONTAINER_TOOLKIT_REPOSITORY/stable/rpm/nvidia-container-toolkit.repo" "$toolkit_repository"
  fi
  perform zypper --non-interactive --gpg-auto-import-keys refresh
  local packages=()
  needs_driver && packages+=(kernel-default-devel "$NVIDIA_DRIVER_PACKAGE_SUSE" "$NVIDIA_DRIVER_TOOLS_SUSE")
  add_rpm_packages
  needs_docker && packages+=("${DOCKER_PACKAGE:-docker}")
  [[ ${#packages[@]} == 0 ]] ||
    perform zypper --non-interactive install --auto-agree-with-licenses "${packages[@]}"
}

# service start|restart: what this machine has for it
service_docker() {
  if [[ -d /run/systemd/system ]]; then
    [[ $1 == start ]] && perform systemctl enable --now docker
    [[ $1 == restart ]] && perform systemctl restart docker
  elif has service; then
    perform service docker "$1"
  else
    printf 'note: neither systemd nor service is here: %s Docker by hand.\n' "$1" >&2
  fi
}

plan_docker() {
  if needs_docker || [[ $docker_state == unreachable ]]; then service_docker start; fi
  if needs_registration; then
    perform nvidia-ctk runtime configure --runtime=docker
    service_docker restart
  fi
  plan_docker_group
}

# Takes effect when the user logs in again.
plan_docker_group() {
  local user=${SUDO_USER:-${USER:-root}}
  [[ $skip_docker_group == no && $user != root && $user =~ ^[A-Za-z_][A-Za-z0-9_.-]*$ ]] || return 0
  needs_docker || [[ $docker_state != missing ]] || return 0
  [[ -n $(answer id -u "$user") && " $(answer id -nG "$user") " != *" docker "* ]] || return 0
  perform usermod --append --groups docker "$user"
}

# A module that does not load is no failed command: the check that follows says what is missing.
plan_module() {
  if [[ $acting == no ]]; then
    perform modprobe nvidia
    return
  fi
  (perform modprobe nvidia) ||
    printf 'note: the driver is installed and not loaded. Restart the machine; with Secure Boot, enroll its key first.\n' >&2
}

# --- Arguments

backend=docker mode=check assume_yes=no json=no strict=no with_cuda=no
skip_docker_install=no skip_docker_config=no skip_docker_group=no

parse_arguments() {
  while (($#)); do
    case $1 in
      --backend)
        (($# > 1)) || wrong_argument "--backend needs a name"
        choose_backend "$2"
        shift
        ;;
      --backend=*) choose_backend "${1#*=}" ;;
      --check-only) mode=check ;;
      --install) mode=install ;;
      --dry-run) dry_run=yes ;;
      -y | --yes) assume_yes=yes ;;
      --json) json=yes ;;
      --with-cuda) with_cuda=yes ;;
      --strict) strict=yes with_cuda=yes ;;
      --skip-docker-install) skip_docker_install=yes ;;
      --skip-docker-config) skip_docker_config=yes ;;
      --skip-docker-group) skip_docker_group=yes ;;
      -h | --help)
        usage
        exit 0
        ;;
      *) wrong_argument "Unknown argument: $(printable "$1")" ;;
    esac
    shift
  done
  [[ ${dry_run:-no} == no ]] || mode=print
}

wrong_argument() {
  printf '%s\n\n' "$1" >&2
  usage >&2
  exit 2
}

choose_backend() {
  case $1 in
    docker | local-docker) backend=docker ;;
    kubernetes | k8s) backend=kubernetes ;;
    *) wrong_argument "Unsupported backend: $(printable "$1")" ;;
  esac
}

# Settings become words of commands that root runs: a name, a version, a path or an address, and nothing else.
check_settings() {
  local name
  for name in NVIDIA_DRIVER_PACKAGE_DEBIAN NVIDIA_DRIVER_PACKAGE_RHEL NVIDIA_DRIVER_KMOD_RHEL \
    NVIDIA_DRIVER_PACKAGE_SUSE NVIDIA_DRIVER_TOOLS_SUSE NVIDIA_CUDA_PACKAGE DOCKER_PACKAGE_DEBIAN; do
    check_setting "$name" '^[A-Za-z0-9][A-Za-z0-9.+_:~=-]*$' "a package's name"
  done
  check_setting DOCKER_PACKAGE '^([A-Za-z0-9][A-Za-z0-9.+_:~=-]*)?$' "a package's name"
  check_setting NVIDIA_DRIVER_BRANCH '^[0-9]+$' "a number, such as 580"
  check_setting NVIDIA_CUDA_RELEASE '^[0-9]+\.[0-9]+$' "a release, such as 13.0"
  check_setting NVIDIA_CONTAINER_TOOLKIT_VERSION '^[0-9]+\.[0-9]+\.[0-9]+-[0-9]+$' "a version, such as 1.19.0-1"
  check_setting NVIDIA_CUDA_PATH '^/[A-Za-z0-9._/+-]+$' "a path"
  local address='^(https://[A-Za-z0-9.-]+|http://127\.0\.0\.1)(:[0-9]+)?(/[A-Za-z0-9._~-]+)*$'
  check_setting NVIDIA_CUDA_REPOSITORY "$address" "an https address without a login"
  check_setting NVIDIA_CONTAINER_TOOLKIT_REPOSITORY "$address" "an https address without a login"
}

# check_setting NAME PATTERN WHAT; the value is not printed, as it may hold a password
check_setting() {
  [[ ${!1} =~ $2 ]] || fail "$1 has to be $3." 2
}

# --- Main

finish() {
  local code=0
  is_ready || code=1
  [[ $json == no ]] || print_json
  exit "$code"
}

say_not_ready() {
  is_ready || say "Run with --install --yes after user approval to install the pinned runtime."
}

refuse_unsupported() {
  if [[ $family == debian || $family == rhel || $family == suse ]]; then
    [[ -n $(repository_machine) ]] || fail "NVIDIA has no packages for a $machine."
    [[ -n $(repository_id) ]] && return
  fi
  cat >&2 <<TEXT
error: this system is not one that packages can be installed on here: $os_name
It can be Ubuntu, Debian or a relative; RHEL, Rocky, AlmaLinux, CentOS, Oracle Linux, Fedora or Amazon Linux 2023;
openSUSE Leap; SLES. Elsewhere install by hand:
  https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/
  https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html
  https://docs.docker.com/engine/install/
TEXT
  exit 1
}

refuse_without_root() {
  [[ $EUID == 0 ]] || sudo -n true 2>/dev/null ||
    fail "MISSING: passwordless sudo/root is required for runtime installation."
}

ask_approval() {
  [[ $assume_yes == no ]] || return 0
  printf 'These commands will be run:\n' >&2
  printf '  %s\n' "${commands[@]}" >&2
  printf 'Continue? [y/N] ' >&2
  local reply=""
  read -r reply || true
  [[ $reply == [yY] || $reply == [yY][eE][sS] ]] || fail "Nothing was changed."
}

main() {
  script_path=$(CDPATH="" cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
  parse_arguments "$@"
  check_settings
  exec 3>&1
  [[ $json == no ]] || exec 3>/dev/null
  look_at_machine
  check_host
  if [[ $mode == check ]]; then
    say_not_ready
    finish
  fi
  if is_ready; then
    say "Nothing has to be installed."
    finish
  fi
  refuse_unsupported
  if is_wsl; then printf 'note: on WSL the driver is that of Windows. Install it there; it is not installed here.\n' >&2; fi
  plan_installation
  if [[ $mode == print ]]; then
    local line
    for line in ${commands[@]+"${commands[@]}"}; do say "$line"; done
    [[ $json == no ]] || print_json
    exit 0
  fi
  refuse_without_root
  ask_approval
  acting=yes
  plan_installation
  say "INFO: installed; this is the machine now:"
  check_host
  finish
}

# Tests read the functions without running any.
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"

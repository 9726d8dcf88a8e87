#!/bin/sh
# What the tests need beside Python: low-level runtimes, container engines, a C compiler, and the Go shim to compare with.
# Missing pieces fail the run when CI=true; elsewhere they are named here, and the tests that want them are skipped.
set -u
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
missing=

# Nothing waits for the lock of apt's lists; the tests of the repository around this one may install at the same time.
apt() { flock "${TMPDIR:-/tmp}/tao-tests-apt.lock" apt-get -o DPkg::Lock::Timeout=300 "$@"; }
need() { command -v "$1" >/dev/null 2>&1; }

wanted=
need runc || wanted="$wanted runc"
need crun || wanted="$wanted crun"
need dockerd || wanted="$wanted docker.io"
need containerd || wanted="$wanted containerd"
need busybox || wanted="$wanted busybox-static"
need gcc || wanted="$wanted gcc libc6-dev"
if [ -n "$wanted" ] && [ "$(id -u)" = 0 ] && need apt-get; then
    # Services are not to be started: the tests start their own. A policy that is there already is left as it is.
    policy=/usr/sbin/policy-rc.d
    made=
    [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' > $policy && chmod 755 $policy && made=1; }
    apt -qq update >/dev/null 2>&1
    DEBIAN_FRONTEND=noninteractive apt -y -qq --no-install-recommends install $wanted >/dev/null
    [ -z "$made" ] || rm -f $policy
fi
for program in runc crun dockerd containerd busybox gcc; do
    need $program || missing="$missing $program"
done

module=github.com/NVIDIA/nvidia-container-toolkit
if [ ! -x .cache/go/nvidia-ctk ] && need go; then
    GOBIN="$PWD/.cache/go" go install $module/cmd/nvidia-container-runtime@v1.20.1 \
        $module/cmd/nvidia-container-runtime-hook@v1.20.1 $module/cmd/nvidia-ctk@v1.20.1 2>.cache-go.log || cat .cache-go.log
    rm -f .cache-go.log
fi
[ -x .cache/go/nvidia-container-runtime ] || missing="$missing go-shim"

if [ -n "$missing" ]; then
    echo "NOT HERE:$missing. The tests that need them are skipped." >&2
    [ "${CI:-}" != true ] || exit 1
fi
exit 0

# Started as `python3 -IS launch.py NAME WORD...`: runs the pack, or the sources when the
# interpreter is another one. It does little, because it may be compiled at every start. What it
# reads is described in pack.py, what it runs is loader.py, which defines `start`.
#
# The same code is also the module `encodings` of the quick start (pack.py): CPython imports that
# before it sets up signals, streams and the main module, none of which a creation needs, and this
# code never lets it get there.
import marshal
import posix
import sys

quick = __name__ == "encodings"
folder = sys.argv[0].rpartition("/")[0]
try:
    pack = posix.open(
        f"{folder}/{sys.implementation.cache_tag}.pack", posix.O_RDONLY | posix.O_CLOEXEC
    )
    size = int(posix.pread(pack, 8, 0))
    version, loader, *rest = marshal.loads(posix.pread(pack, size, 8))
except (OSError, ValueError, EOFError):
    version = None
if version == sys.version:
    exec(loader)
    code = start(quick, pack, 8 + size, *rest)  # noqa: F821
elif quick:
    python = posix.readlink(sys.executable)
    posix.execv(python, [python, "-ISX", "utf8", folder + "/launch.py", *sys.argv[1:]])
else:
    sys.path.insert(0, folder)
    from nvidia_container_runtime.program import main

    code = main(sys.argv[1:])
quick or (sys.stdout and sys.stdout.flush())
posix._exit(code)

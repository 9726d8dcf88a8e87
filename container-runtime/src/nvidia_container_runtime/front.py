"""The record that a full run leaves for the shell front: the runtime it resolved, and everything
that this was resolved from.
"""

from .journal import LEVELS
from .sections import RUNTIME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .settings import Settings

TEXT_LIMIT = 8192  # the front reads byte by byte; beyond this Python is faster
CONFIG_EXPRESSION = (
    '"${NVIDIA_CTK_CONFIG_FILE_PATH:-'
    '${XDG_CONFIG_HOME:-/etc}/nvidia-container-runtime/config.toml}"'
)


def can_be_checked(settings: "Settings", path: str, program: str, missed: "list[str]") -> bool:
    if LEVELS.get(settings[RUNTIME + "log-level"].lower(), 4) > LEVELS["info"] or len(missed) > 64:
        return False
    texts = [settings.text or "", path, program, settings.path, *missed]
    if not all(
        text.isascii() and text.replace("\n", "").replace("\t", "").isprintable() for text in texts
    ):
        return False
    places = [program, settings.path, *missed, *(path.split(":") if path else [])]
    return len(settings.text or "") <= TEXT_LIMIT and all(place.startswith("/") for place in places)


def snippet(settings: "Settings", path: str, program: str, missed: "list[str]") -> str:
    """Shell text that defines _nvcr_same: true when a full run would come to the same runtime and
    write nothing.
    """
    if not can_be_checked(settings, path, program, missed):
        return "_nvcr_same() { false; }\n"
    checks = [
        f'[ "${{PATH-}}" = {quote(path)} ]',
        f"[ {CONFIG_EXPRESSION} = {quote(settings.path)} ]",
    ]
    checks += [f"[ -f {quote(program)} ]", f"[ -x {quote(program)} ]"]
    checks += [f"[ ! -e {quote(place)} ]" for place in missed]
    if settings.text is None:
        checks.append(f"[ ! -e {quote(settings.path)} ]")
    else:
        checks += [f"[ -f {quote(settings.path)} ]", "_nvcr_unchanged"]
    return "\n".join([
        f"_nvcr_runtime={quote(program)}",
        "_nvcr_unchanged() {",
        "    _nvcr_text=",
        "    while IFS= read -r _nvcr_line || [ -n \"$_nvcr_line\" ]; do",
        "        _nvcr_text=\"$_nvcr_text$_nvcr_line",
        "\"",
        f"    done < {quote(settings.path)}",
        f"    [ \"$_nvcr_text\" = {quote(whole_lines(settings.text or ''))} ]",
        "}",
        "_nvcr_same() {",
        "    " + " &&\n    ".join(checks),
        "}\n",
    ])  # fmt: skip


def whole_lines(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"


def quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"

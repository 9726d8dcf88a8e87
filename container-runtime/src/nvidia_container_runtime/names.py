"""CDI device names: vendor/class=device."""

LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
WORD = LETTERS | frozenset("0123456789")


def is_qualified(name: str) -> bool:
    kind, equals, device = name.partition("=")
    return bool(equals) and is_kind(kind) and is_device(device)


def is_kind(kind: str) -> bool:
    vendor, slash, class_name = kind.partition("/")
    return bool(slash) and is_label(vendor) and is_label(class_name)


def is_label(label: str) -> bool:
    """A vendor or a class: starts with a letter, ends with a letter or digit."""
    return (
        bool(label)
        and label[0] in LETTERS
        and label[-1] in WORD
        and all(c in WORD or c in "_-." for c in label)
    )


def is_device(device: str) -> bool:
    return (
        bool(device)
        and device[0] in WORD
        and device[-1] in WORD
        and all(c in WORD or c in "_-.:" for c in device)
    )


def split(name: str) -> "tuple[str, str]":
    kind, _, device = name.partition("=")
    return kind, device

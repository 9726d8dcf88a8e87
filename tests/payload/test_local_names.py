"""Short names for local variables: which ones get a letter, and which others see and stay."""

from __future__ import annotations

import pytest

from tao_sdk.payload.source import slim


def test_a_local_variable_is_called_by_one_letter_wherever_its_function_uses_it():
    assert slim('def f():\n    total = 1\n    return f"{total} {total:x}"\n') == (
        'def f():\n a=1\n return f"{a} {a:x}"\n'
    )


def test_a_variable_of_a_function_inside_has_one_name_in_both():
    assert slim("def f():\n    total = 1\n    return lambda: total\n") == (
        "def f():\n a=1\n return lambda:a\n"
    )


def test_a_letter_that_means_something_already_is_not_taken():
    assert slim("def f(a):\n    total = a + b\n    return total\n") == (
        "def f(a):\n c=a+b\n return c\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "def f(path):\n    path=1\n",
        "def f():\n    import os.path as path\n    path=path\n",
        "def f():\n    global path\n    path=1\n",
        "def f(path):\n    path.name=1\n",
        "path=1\ndef f():\n    return[path for path in x],path\n",
        "def f():\n    return[list for list in x],list\n",
        "def f():\n    try:g()\n    except E as path:path=1\n",
        "def f():\n    def path(x=0):return x\n    path=path\n    return path\n",
        "def f(path):\n    def g():\n        path=1\n        return path\n    return g\n",
    ],
)
def test_a_name_that_others_can_see_stays(text):
    assert slim(text) == text.replace("    ", " ")

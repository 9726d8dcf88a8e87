"""Short names for local variables and positional parameters: which ones get a letter, and which
others see and stay.
"""

from __future__ import annotations

import pytest

from tao_sdk.payload.local_names import positional_names
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


def test_a_parameter_that_no_call_names_is_called_by_one_letter():
    text = "def f(path: str, *rest: str):\n    return g(path, mode=path), lambda path: path\n"
    assert slim(text, {"path"}) == "def f(a,*rest):\n return g(a,mode=a),lambda a:a\n"


@pytest.mark.parametrize(
    "call", ["f(path=1)", "f(\n    path=1,\n)", 'f(**{"path": 1})', "f(**{'path': 1})"]
)
def test_a_parameter_that_a_call_may_name_in_any_module_stays(call):
    names = positional_names(["def f(path, mode):\n    return path == mode\n", call])
    assert "mode" in names
    assert "path" not in names


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

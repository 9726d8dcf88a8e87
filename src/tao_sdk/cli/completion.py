"""`tao completion`: the script that makes a shell complete verbs, flags and job ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

from tao_sdk.cli.command import command

if TYPE_CHECKING:
    from tao_sdk.cli.output import Output


@command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(out: Output, shell: str) -> None:
    """Print the completion script of a shell.

    \b
      bash:  eval "$(tao completion bash)"      in ~/.bashrc
      zsh:   eval "$(tao completion zsh)"       in ~/.zshrc
      fish:  tao completion fish | source       in config.fish
    """
    from tao_sdk.cli.main import COMPLETE, tao

    made = get_completion_class(shell)
    assert made is not None
    script = made(tao, {}, "tao", COMPLETE).source()
    out.object({"schema": 1, "shell": shell, "script": script})
    if not out.json:
        out.bytes(script.encode() + b"\n")  # as it is: a shell reads it

"""Fill a template, the text of the spec or the command, with the paths that only the job knows."""

from __future__ import annotations

from tao_sdk.runner.quote import STYLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tao_sdk.runner.document import Template


def fill_template(template: Template, values: Mapping[str, str]) -> str:
    """The text with each hole filled by the value of its key, or by its default text."""
    parts = template["parts"]
    text = [parts[0]]
    for (key, style, given, before, after), part in zip(template["holes"], parts[1:]):
        text += before + STYLES[style](values[key]) + after if key in values else given, part
    return "".join(text)

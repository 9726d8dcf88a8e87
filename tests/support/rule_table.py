"""The table of rules in docs/failures.md. `python tests/support/rule_table.py` writes it anew."""

from __future__ import annotations

from pathlib import Path

from tao_sdk.engine.rules import RULES
from tao_sdk.model.diagnosis import Diagnosis
from tao_sdk.model.errors import join_sentences
from tao_sdk.model.rule import Rule

PAGE = Path(__file__).parents[2] / "docs" / "failures.md"
BEGIN, END = "<!-- rules: begin -->\n", "<!-- rules: end -->\n"


def again(rule: Rule) -> str:
    found = Diagnosis("", rule.fault, "", rule.retryable, after=rule.needed_first)
    return found.again.replace("does not help", "")


def advice(rule: Rule) -> str:
    """What to do, and what to do where a field of the job is not used."""
    others = [f"Where `{name}` is not used: {text}" for name, text in rule.next_without.items()]
    return join_sentences(rule.next, *others)


def table() -> str:
    head = "| rule | cause | class | what to do | again |\n|---|---|---|---|---|\n"
    rows = [
        (
            f"| `{rule.code}` | {rule.what} | `{rule.fault.value}` | {advice(rule)} | {again(rule)} |\n"
        )
        for rule in RULES
    ]
    return head + "".join(rows)


def parts() -> tuple[str, str, str]:
    """What stands before the table, the table, and what stands behind it."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    shown, _, after = rest.partition(END)
    return before, shown, after


if __name__ == "__main__":
    before, _, after = parts()
    PAGE.write_text(f"{before}{BEGIN}{table()}{END}{after}", encoding="utf-8")

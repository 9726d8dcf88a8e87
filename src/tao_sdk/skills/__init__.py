"""Skill banks: folders that say which models, platforms and tools there are, and how each is run.

Here: the choice of a bank (bank.py), what a skill is (skill.py), how its file is read (loader.py),
how a name finds it (names.py). Not here: how a job uses it.
"""

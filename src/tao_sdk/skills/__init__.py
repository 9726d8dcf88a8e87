"""Skill banks: folders that say which models, platforms and tools there are, and how each is run.

Here: which bank is used (bank.py), what a skill is (skill.py), how its file is read (loader.py),
how a name finds it (names.py). Not here: what a job makes of it.
"""

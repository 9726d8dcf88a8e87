"""Reports: what a search has found, as a table, a picture, lines and JSON. Pure.

All are made from a SearchView (view.py), which is a Search with what its driver knows of its jobs.
Not here: writing files, and who asks for one.
"""

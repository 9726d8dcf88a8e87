"""Space: what is searched. Typed parameters, from a `search:` block or a JSON schema of TAO, and
how their values become points of the unit cube and back.

Not here: which point is tried next (propose/).
"""

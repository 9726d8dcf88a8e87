"""The nouns of the SDK and their rules: pure data, no I/O, no clock but where a default says so."""

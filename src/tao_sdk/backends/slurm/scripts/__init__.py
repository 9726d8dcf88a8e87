"""The shell scripts of this backend, and the variables that Python puts before them."""

"""The cluster: how it is reached and who asks, what it has, and what a new user trips over."""

"""The ways to a place that runs jobs: local processes, ssh, the Docker API. They carry words and
decide nothing.
"""

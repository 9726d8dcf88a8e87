"""The bench: every figure that the project claims, as ratios that one run measures. Run it as
`python -m bench`.

Each figure group is a file (start, entrypoint, logs, store, docker); what they share is rounds,
figure, contenders and machine.
"""

"""The `tao` command: one file per verb group, each parsing, calling the client and printing. No
logic of jobs lives here.
"""

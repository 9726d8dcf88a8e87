"""Sections of config.toml, as the start of a key's full name: CLI + "root" is
nvidia-container-cli.root.
"""

CLI = "nvidia-container-cli."
RUNTIME = "nvidia-container-runtime."

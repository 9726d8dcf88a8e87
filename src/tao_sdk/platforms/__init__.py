"""The documents' import paths: `from tao_sdk.platforms.local import LocalSDK`, and so for each
platform.
"""

"""Access to other machines: HTTP, S3, model hubs, and checksums of the transferred data.

Only the standard library, Python 3.8 or later: `payload` packs these modules into jobs, and the
client uses them as well. They import nothing else of tao_sdk.
"""

"""What speaks to other machines: HTTP, S3, model hubs, and the checksums of what comes and goes.

The standard library only, Python 3.8 or later: `payload` packs these modules into jobs, and the
client uses them as well. Nothing else of this package is imported here.
"""

"""A program that fetches from S3 as a job does: the environment names the server, arguments the
address and the folder.
"""

import os
import sys

sys.path.insert(0, sys.argv[1])
from tao_sdk.net import s3_source, transfer
from tao_sdk.net.failure import Failure
from tao_sdk.net.web import Web

web = Web(os.environ)
try:
    found = s3_source.look(sys.argv[2], "", web)
    transfer.fetch(found.sources, sys.argv[3], lambda _bytes, _files: None, web.patience)
except Failure as failure:
    sys.exit(f"{failure.code}: {failure.what}")

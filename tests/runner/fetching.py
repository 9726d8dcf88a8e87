"""A program that fetches from S3 as a job does: the environment names the server, arguments the address and the folder."""

import os
import sys

sys.path.insert(0, sys.argv[1])
from tao_sdk.runner import s3_input, transfer
from tao_sdk.runner.report import Failure
from tao_sdk.runner.web import Web

web = Web(os.environ)
try:
    found = s3_input.look(sys.argv[2], "", web)
    transfer.fetch(found.sources, sys.argv[3], lambda _bytes, _files: None, web.patience)
except Failure as failure:
    sys.exit(f"{failure.code}: {failure.what}")

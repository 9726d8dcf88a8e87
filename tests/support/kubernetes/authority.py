"""The cluster's certificate authority, what it issues, and the kubeconfigs that hold it.

Every part of a cluster knows the others by certificates of one authority: the user is the
certificate's common name, his groups are its organizations.
"""

from __future__ import annotations

import base64
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DAYS = "3650"
EC_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
USAGE = (
    "basicConstraints=CA:FALSE\n"
    "keyUsage=digitalSignature,keyEncipherment\n"
    "extendedKeyUsage=serverAuth,clientAuth\n"
)


@dataclass(frozen=True)
class Authority:
    folder: Path

    def make(self) -> None:
        """The authority itself, and the key that signs the tokens of service accounts."""
        self.folder.mkdir(parents=True)
        self.openssl(
            *["req", "-x509", *EC_KEY, "-keyout", "ca.key", "-out", "ca.crt"],
            *["-days", DAYS, "-subj", "/CN=tests-kubernetes-ca"],
            *["-addext", "keyUsage=critical,keyCertSign,digitalSignature"],
        )
        self.openssl("genrsa", "-out", "sa.key", "2048")
        self.openssl("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")

    def issue(self, name: str, subject: str, alternative_names: str = "") -> None:
        """A certificate NAME.crt with its key NAME.key, for a client and for a server."""
        request = ["-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject]
        self.openssl("req", *EC_KEY, *request)
        names = f"subjectAltName={alternative_names}\n" if alternative_names else ""
        (self.folder / f"{name}.ext").write_text(USAGE + names)
        self.openssl(
            *["x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key"],
            *["-CAcreateserial", "-days", DAYS, "-extfile", f"{name}.ext", "-out", f"{name}.crt"],
        )

    def openssl(self, *words: str) -> None:
        done = subprocess.run(["openssl", *words], cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, f"openssl {' '.join(words)}: {done.stderr}"

    def path(self, name: str) -> Path:
        return self.folder / name

    def encoded(self, name: str) -> str:
        return base64.b64encode(self.path(name).read_bytes()).decode()

    def certificate_user(self, name: str) -> dict[str, str]:
        """A user of a kubeconfig who comes with an issued certificate."""
        return {
            "client-certificate-data": self.encoded(f"{name}.crt"),
            "client-key-data": self.encoded(f"{name}.key"),
        }

    def write_kubeconfig(
        self, path: Path, server: str, user: dict[str, str], namespace: str = "default"
    ) -> Path:
        path.touch(mode=0o600)
        path.write_text(json.dumps(self.kubeconfig(server, user, namespace), indent=1))
        return path

    def kubeconfig(self, server: str, user: dict[str, str], namespace: str) -> dict[str, Any]:
        """JSON is YAML as well."""
        cluster = {"server": server, "certificate-authority-data": self.encoded("ca.crt")}
        context = {"cluster": "tests", "user": "tests", "namespace": namespace}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "tests", "user": user}],
            "contexts": [{"name": "tests", "context": context}],
            "current-context": "tests",
        }

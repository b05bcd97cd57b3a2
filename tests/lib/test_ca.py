"""A certificate authority for one suite, made with the openssl command: what it signs is good to those who are told of
`ca.pem`, and to no other program.

    ca = TestCa()                                  # or TestCa(folder)
    context = ca.server("localhost", "127.0.0.1")  # an ssl.SSLContext for a server of these names
    expired = ca.server("localhost", days=-1)
"""
from __future__ import annotations

import atexit
import ipaddress
import shutil
import ssl
import subprocess
import tempfile
from pathlib import Path


def _openssl(*args: str) -> None:
    done = subprocess.run(["openssl", *args], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, "openssl %s: %s" % (args[0], done.stderr.strip())


class TestCa:
    def __init__(self, folder: str | Path | None = None, name: str = "Test CA"):
        if folder is None:
            folder = tempfile.mkdtemp(prefix="kr-ca-")
            atexit.register(shutil.rmtree, folder, True)
        self.folder = Path(folder)
        self.count = 0
        self.pem, self.key = self.folder / "ca.pem", self.folder / "ca.key"
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                 "-subj", "/CN=" + name, "-keyout", str(self.key), "-out", str(self.pem),
                 "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")

    def files(self, *names: str, days: int = 2) -> tuple[Path, Path]:
        """Certificate and key for these names or addresses; a negative `days`: it has expired."""
        self.count += 1
        base = self.folder / ("leaf%d" % self.count)
        cert, key, request, more = (base.with_suffix(s) for s in (".pem", ".key", ".csr", ".ext"))
        kinds = []
        for name in names:
            try:
                kinds.append("IP:%s" % ipaddress.ip_address(name))
            except ValueError:
                kinds.append("DNS:" + name)
        more.write_text("subjectAltName=%s\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n"
                        % ",".join(kinds))
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                 "/CN=" + names[0], "-keyout", str(key), "-out", str(request))
        _openssl("x509", "-req", "-in", str(request), "-CA", str(self.pem), "-CAkey", str(self.key), "-CAcreateserial",
                 "-days", str(days), "-extfile", str(more), "-out", str(cert))
        return cert, key

    def server(self, *names: str, days: int = 2) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*map(str, self.files(*names, days=days)))
        return context

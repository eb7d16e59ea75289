"""Certificates, tokens and kubeconfig files of a control plane."""

import json
import pathlib
import secrets
import subprocess
import threading

# Users that a test cluster knows. The operators have no rights until a test grants them some, so
# that the rights in the chart are tested as well. There are two to tell them apart in audit logs.
GROUPS = {
    "admin": "system:masters",
    "hollow-nodes": "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    "operator": "",
    "operator-2": "",
}
NODE_GROUP = "system:nodes"


def node_user(node):
    """The name under which the API server authorises that node's kubelet."""
    return f"system:node:{node}"


class Credentials:
    """Everything lies in `folder`. `addresses` are those that the API server is reached at."""

    def __init__(self, folder, addresses, nodes=()):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.ca_file = self.folder / "ca.crt"
        self._make_authority()
        names = ["localhost", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
        self.make_certificate("api", "/CN=kube-apiserver", names, addresses)
        self.make_certificate("kubelet-client", "/O=system:masters/CN=kubelet-client")
        # The API server does not read the newer format that genpkey writes.
        _openssl("ecparam", "-name", _CURVE, "-genkey", "-noout",
                 "-out", self.folder / "accounts.key")
        groups = {**GROUPS, **{node_user(node): NODE_GROUP for node in nodes}}
        self.tokens = {user: secrets.token_hex(16) for user in groups}
        self.token_file = self.folder / "tokens.csv"
        lines = [f'{self.tokens[user]},{user},{user},"{groups[user]}"\n' for user in groups]
        self.token_file.write_text("".join(lines))

    def _make_authority(self):
        _openssl(
            "req", "-x509", "-newkey", "ec", *_CURVE_OPTION, "-nodes", "-days", "2",
            "-subj", "/CN=test-authority",
            "-keyout", self.folder / "ca.key", "-out", self.ca_file,
        )

    def make_certificate(self, name, subject, dns_names=(), addresses=()):
        """Makes `name`.crt and `name`.key, signed by our authority; returns the two files. With
        names or addresses it is a server's certificate, without it is a client's."""
        alternatives = [f"DNS:{dns}" for dns in dns_names] + [f"IP:{ip}" for ip in addresses]
        extensions = ["-addext", "basicConstraints=critical,CA:FALSE"]
        if alternatives:
            extensions += ["-addext", "subjectAltName=" + ",".join(alternatives)]
            extensions += ["-addext", "extendedKeyUsage=serverAuth"]
        else:
            extensions += ["-addext", "extendedKeyUsage=clientAuth"]
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        _openssl(
            "req", "-x509", "-newkey", "ec", *_CURVE_OPTION, "-nodes", "-days", "2",
            "-CA", self.ca_file, "-CAkey", self.folder / "ca.key", "-subj", subject,
            *extensions, "-keyout", key, "-out", certificate,
        )
        return certificate, key

    def kubeconfig(self, user, server, file_name=None):
        """Writes a kubeconfig file for one of our users; JSON is YAML too."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {"server": server, "certificate-authority": str(self.ca_file)},
                }
            ],
            "users": [{"name": user, "user": {"token": self.tokens[user]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        file = self.folder / f"{file_name or user.replace(':', '-')}.kubeconfig"
        # Whole or not at all: another thread may be reading it.
        new = file.with_suffix(f".{threading.get_ident()}")
        new.write_text(json.dumps(document, indent=1))
        new.replace(file)
        return file


_CURVE = "prime256v1"
_CURVE_OPTION = ("-pkeyopt", f"ec_paramgen_curve:{_CURVE}")


def _openssl(*arguments):
    subprocess.run(
        ["openssl", *map(str, arguments)], check=True, capture_output=True, stdin=subprocess.DEVNULL
    )

"""Prints the SBOM of a release as SPDX 2.3 JSON: what its files and images hold of others' code.

Usage: sbom.py VERSION COMMIT DIST PACKAGE... --static NAME-VERSION...

PACKAGE is installed here and inside our programs; --static names what scripts/install.sh builds
from Debian's source packages. Images are read from DIST/images. Each names its packages itself, in
/var/lib/dpkg/status.d and in the metadata of wheels; a licence in /usr/share/doc that belongs to
none of them is of code inside our programs.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import uuid
from datetime import datetime, timezone

NOT_SAID = "NOASSERTION"
STATUS_FOLDER = "var/lib/dpkg/status.d/"


class Document:
    def __init__(self, version, commit):
        moment = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), timezone.utc)
        name = f"lockstep-{version}"
        self._packages, self._relationships = {}, set()
        self._head = {
            "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": name,
            "documentNamespace": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, name + commit)}",
            "creationInfo": {
                "created": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "creators": ["Tool: scripts/release/sbom.py"],
                "comment": f"Made of commit {commit}",
            },
        }

    def add(self, name, version, purl=None, checksum=None):
        """The identity of a package, the same for each mention of it."""
        identity = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", f"{name}-{version}")
        package = {
            "SPDXID": identity, "name": name, "versionInfo": version, "filesAnalyzed": False,
            "downloadLocation": NOT_SAID, "licenseConcluded": NOT_SAID,
            "licenseDeclared": NOT_SAID, "copyrightText": NOT_SAID,
        }
        if purl is not None:
            package["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER",
                                        "referenceType": "purl", "referenceLocator": purl}]
        if checksum is not None:
            package["checksums"] = [{"algorithm": "SHA256", "checksumValue": checksum}]
        self._packages[identity] = package
        return identity

    def relate(self, one, kind, other):
        self._relationships.add((one, kind, other))

    def text(self):
        relationships = [
            {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
            for one, kind, other in sorted(self._relationships)
        ]
        packages = [self._packages[identity] for identity in sorted(self._packages)]
        whole = {**self._head, "packages": packages, "relationships": relationships}
        return json.dumps(whole, indent=1)


def debian_purl(name, version, architecture="amd64"):
    escaped = version.replace("+", "%2B").replace(":", "%3A").replace("~", "%7E")
    return f"pkg:deb/debian/{name}@{escaped}?arch={architecture}&distro=debian-12"


def installed_version(package):
    return subprocess.run(["dpkg-query", "--show", "--showformat=${Version}", package],
                          check=True, capture_output=True, text=True).stdout


def layers(archive):
    """The opened layers of an OCI archive of one image."""
    with tarfile.open(archive) as tar:
        def read(digest):
            return tar.extractfile("blobs/" + digest.replace(":", "/"))

        index = json.load(tar.extractfile("index.json"))
        manifest = json.load(read(index["manifests"][0]["digest"]))
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=read(layer["digest"])) as content:
                yield content


def packages_of_image(archive):
    """(packages, licences) of an image: name, version and purl each; and names of licences."""
    packages, licences = set(), set()
    for layer in layers(archive):
        for member in layer:
            path = member.name.lstrip("./")
            if path.startswith(STATUS_FOLDER) and member.isfile():
                status = layer.extractfile(member).read().decode()
                fields = dict(re.findall(r"^(Package|Version|Architecture): (.*)$", status, re.M))
                name, version = fields["Package"], fields["Version"]
                packages.add((name, version, debian_purl(name, version, fields["Architecture"])))
            licence = re.fullmatch(r"usr/share/doc/([^/]+)/copyright", path)
            if licence:
                licences.add(licence[1])
            wheel = re.search(r"/([^/]+)-([^/-]+)\.dist-info/", path)
            if wheel:
                name = wheel[1].replace("_", "-").lower()
                packages.add((name, wheel[2], f"pkg:pypi/{name}@{wheel[2]}"))
    return sorted(packages), licences


def main(version, commit, dist, arguments):
    cut = arguments.index("--static")
    document = Document(version, commit)
    inside = {}
    for package in arguments[:cut]:
        found = installed_version(package)
        inside[package] = document.add(package, found, debian_purl(package, found))
    for name_and_version in arguments[cut + 1:]:
        name, found = re.fullmatch(r"([a-z-]+)-(\d.*)", name_and_version).groups()
        inside[name] = document.add(name, found, debian_purl(name, found, "source"))
    for file in sorted(path for path in dist.rglob("*") if path.is_file()):
        name = str(file.relative_to(dist))
        checksum = hashlib.sha256(file.read_bytes()).hexdigest()
        ours = document.add(name, version, checksum=checksum)
        document.relate("SPDXRef-DOCUMENT", "DESCRIBES", ours)
        held = set()
        if file.parent.name == "images":
            packages, held = packages_of_image(file)
            for package in packages:
                document.relate(ours, "CONTAINS", document.add(*package))
        elif re.search(r"amd64\.(tar\.gz|deb)$|_x86_64\.whl$", name):
            held = set(inside)
        for package in sorted(held & set(inside)):
            document.relate(ours, "STATIC_LINK", inside[package])
    print(document.text())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4:])

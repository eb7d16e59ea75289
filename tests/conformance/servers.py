"""The simulated API server and a real one, behind the same few calls, and what they answer, so that
it can be compared: what a server chooses by itself is replaced by its place in the order."""

import json
import re
import subprocess

from client import PATCH_TYPES
from processes import wait_for

CALL_SECONDS = 30
# Said by one server and not by the other, and of no use to an operator.
# These are shown to users.
_COMPARED_MESSAGES = (403, 404, 409, 422)
_IGNORED_METADATA = ("creationTimestamp", "managedFields", "selfLink", "remainingItemCount")


class SimulatedServer:
    def __init__(self, program):
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(CALL_SECONDS)

    def _ask(self, **command):
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def make_namespace(self, name):
        pass  # every namespace is there

    def call(self, method, path, content_type, text):
        answer = self._ask(method=method, path=path, type=content_type, body=text)
        return answer["code"], answer["body"]

    def watch(self, path, count):
        """Code and text of a watch that is read until there have been `count` events."""
        answer = self._ask(watch=path)
        if answer["code"] != 200:
            return answer["code"], answer["body"]
        lines = self._ask(read=answer["id"])["body"].splitlines()
        return 200, "\n".join(lines[:count])

    def compact(self):
        self._ask(do="compact")

    def delete_namespace(self, name):
        self._ask(terminate=name)

    def wait_until(self, condition, what):
        """Lets the controllers of a cluster do their work."""
        self._ask(do="collect")
        if not condition():
            raise AssertionError(f"it never came to {what}")


class RealServer:
    def __init__(self, plane):
        self._plane = plane
        self._connection = plane.admin.connect()

    def close(self):
        self._connection.close()

    def make_namespace(self, name):
        admin = self._plane.admin
        admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        wait_for(lambda: admin.find("ServiceAccount", "default", name), 30, "a service account")

    def call(self, method, path, content_type, text):
        headers = self._plane.admin.headers(content_type)
        self._connection.request(method, path, text or None, headers)
        response = self._connection.getresponse()
        return response.status, response.read().decode()

    def watch(self, path, count):
        connection = self._plane.admin.connect(CALL_SECONDS)
        try:
            connection.request("GET", path, headers=self._plane.admin.headers())
            response = connection.getresponse()
            if response.status != 200:
                return response.status, response.read().decode()
            return 200, "\n".join(response.readline().decode().rstrip() for _ in range(count))
        finally:
            connection.close()

    def compact(self):
        self._plane.compact_history()

    def delete_namespace(self, name):
        self._plane.admin.delete("Namespace", name)

    def wait_until(self, condition, what):
        wait_for(condition, 60, what)


class Recorder:
    """Speaks to one server in one namespace and keeps what it answers, to be compared."""

    def __init__(self, server, namespace):
        self._server = server
        self.namespace = namespace
        self._uids = {}
        self._versions = set()
        self._record = []
        server.make_namespace(namespace)

    def call(self, method, path, body=None, how=None):
        """The decoded answer, which is recorded. `how`: the kind of a patch."""
        content_type = PATCH_TYPES[how] if how else "application/json"
        text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
        code, answer = self._server.call(method, path, content_type, text)
        decoded = json.loads(answer) if answer.startswith("{") else {"text": answer}
        self._record.append((f"{method} {path}", code, self._plain(decoded)))
        return decoded

    def look(self, path):
        """The answer to a GET, which is not recorded, or None when nothing is there."""
        code, answer = self._server.call("GET", path, "application/json", "")
        return json.loads(answer) if code == 200 else None

    def watch(self, path, count):
        """The events of a watch, which are recorded: as many as that."""
        code, text = self._server.watch(path, count)
        events = [json.loads(line) for line in text.splitlines()]
        plain = [
            {**event, "object": self._plain(event["object"])} if "object" in event
            else self._plain(event)
            for event in events
        ]
        self._record.append((f"WATCH {path}", code, plain))
        return events

    def compact(self):
        self._server.compact()

    def delete_namespace(self):
        self._server.delete_namespace(self.namespace)

    def wait_leaving(self, path):
        """Until it is being deleted."""
        self._server.wait_until(
            lambda: "deletionTimestamp" in self.look(path)["metadata"], f"the deletion of {path}"
        )

    def wait_gone(self, path):
        self._server.wait_until(lambda: self.look(path) is None, f"the end of {path}")
        self._record.append((f"gone: {path}", 404, {}))

    def answers(self):
        """All that was recorded. Versions are known by their order now."""
        order = {version: f"version {rank}" for rank, version in enumerate(sorted(self._versions))}

        def ranked(value):
            if isinstance(value, dict):
                return {key: ranked(item) for key, item in value.items()}
            if isinstance(value, list):
                return [ranked(item) for item in value]
            return order[value.number] if isinstance(value, _Version) else value

        return ranked([list(answer) for answer in self._record])

    def _plain(self, document):
        if "items" in document:
            return {
                **document,
                "metadata": {"has_more": bool(document["metadata"].get("continue"))},
                "items": [self._plain(item) for item in document["items"]],
            }
        if document.get("kind") == "Status":
            return self._plain_status(document)
        metadata = {
            key: value for key, value in document.get("metadata", {}).items()
            if key not in _IGNORED_METADATA
        }
        is_bookmark = "name" not in metadata
        if "uid" in metadata:
            metadata["uid"] = self._uid(metadata["uid"])
        if "resourceVersion" in metadata:
            # A bookmark's is any server's own; an object's has its place among those of the others.
            metadata["resourceVersion"] = (
                "some" if is_bookmark else self._version(metadata["resourceVersion"])
            )
        if "deletionTimestamp" in metadata:
            metadata["deletionTimestamp"] = "some"
        for owner in metadata.get("ownerReferences", []):
            owner["uid"] = self._uid(owner["uid"])
        return {**document, "metadata": metadata}

    def _uid(self, uid):
        return self._uids.setdefault(uid, f"uid {len(self._uids)}")

    def _version(self, version):
        self._versions.add(int(version))
        return _Version(int(version))

    def _plain_status(self, document):
        plain = {key: document.get(key) for key in ("kind", "status", "reason", "code")}
        if plain["code"] in _COMPARED_MESSAGES:
            text = document["message"]
            for uid, name in self._uids.items():
                text = text.replace(uid, name)
            plain["message"] = re.sub(r"\b[0-9]{2,}\b", "N", text)
        return plain


class _Version:
    def __init__(self, number):
        self.number = number


def differences(simulated, real, where="answer"):
    """Where the simulated answer is not what the real one says. The real one may say more: defaults
    that nobody here reads; but not about metadata. What is empty or false it leaves out."""
    if isinstance(simulated, dict) and isinstance(real, dict):
        found = []
        for key in simulated:
            if key not in real and simulated[key] not in (False, "", {}, []):
                found.append(f"{where}.{key}: only simulated: {simulated[key]!r}")
            elif key in real:
                found += differences(simulated[key], real[key], f"{where}.{key}")
        if where.endswith(".metadata"):
            found += [f"{where}.{key}: only real: {real[key]!r}" for key in real.keys() - simulated]
        return found
    if isinstance(simulated, list) and isinstance(real, list) and len(simulated) == len(real):
        return [
            line for at, pair in enumerate(zip(simulated, real))
            for line in differences(*pair, f"{where}[{at}]")
        ]
    return [] if simulated == real else [f"{where}: simulated {simulated!r}, real {real!r}"]

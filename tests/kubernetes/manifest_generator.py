"""Manifests out of a schema: valid ones, and ones that a hostile or careless user might write.

A walk begins with a good manifest and changes one thing at a time. The caller says after each step
whether an API server took the result; what it took is where the next step begins, so that a walk
stays among manifests with one mistake at most. The seed and those answers decide all of it."""

import copy
import json
import random
import re

try:
    from re import _parser as re_parser
except ImportError:  # before Python 3.11
    import sre_parse as re_parser

BYTES_MAX = 60_000  # of a manifest that a walk goes on from
DEPTH_MAX = 12      # of what is made at once

# Numbers as JSON can write them, whatever the field takes.
NUMBERS = (
    "-1", "0", "1", "2", "64", "65", "-0", "-0.0", "0.0", "0.5", "1.0", "1.5", "1e3", "1E2", "1e-7",
    "1e-13", "4096", "4097", "2147483647", "2147483648", "9007199254740992", "9007199254740993",
    "999999999999999999", "1000000000000000000", "9223372036854775807", "9223372036854775808",
    "18446744073709551616", "100000000000000000000000", "1e18", "1e19", "1e30", "1e308",
    "0.30000000000000004", "86400", "86401", "1e9",
)
TEXTS = (
    "", " ", "a", "A", "0", "1", "-", "-a", "a-", "a.b", "a/b", "a_b", "/", "a/", "/a", "a//b",
    "a b", "true", "null", "~", "ü", "日本語", "e\u0301", "\u200b", "\u0000", "\ud800", "a\nb",
    "\t", "🙂",
    "lockstep-x", "LOCKSTEP_X", "LOCKSTEP_LIBRARY", "trainer", "RANK", "MASTER_PORT", "TF_CONFIG",
    "a" * 40, "a" * 41, "a" * 63, "a" * 64, "a" * 127, "a" * 129, "a" * 253, "a" * 254, "a" * 256,
    "a" * 317, "a" * 318, "ü" * 32, "ü" * 64, "x/" + "a" * 63, "x/" + "a" * 64,
    "a" * 253 + "/b", "a" * 254 + "/b", "file:///x", "s3://b/c", "default-scheduler", "default",
    "2222", "2293", "2294", "1023", "1024", "65535", "65536", "+3000", "03000", "3000",
    "99999999999999999999", "$(X)", "../..", "torchrun", "python3", "train.py",
)
QUANTITIES = (
    "0", "1", "+1", "-1", "-0", "1.", ".5", "0.5", "500m", "1500m", "1n", "1u", "999999999n",
    "0.1n", "1k", "1K", "1Ki", "1.5Gi", "0.1Ki", "8Ei", "7.99Ei", "7Ei", "9E", "9.3E", "1E",
    "1E3", "1e3",
    "1e+3", "1e-3", "1e-30", "1e18", "1e19", "1e-18", "1e-19", "1e99", "1e-99", "0e99", "1e100",
    "1e007", "1e", "1e+", "1e+-3", "1e0", "", " 1", "1 ", "1 Gi", "1GB", "1B", "m", ".", "+",
    "1..2", "0x10", "1_000", "١", "inf", "nan", "1234567890.123456789", "123456789012345678",
    "1234567890123456789", "9223372036854775807", "9223372036854775808", "9223372036854775807m",
    "9223372036854775.807", "9223372036854775.808", "9223372036854776", "9007199254740993",
    "0" * 63 + "1", "0" * 62 + "1m", "1" * 64, "9" * 18, "9" * 19, "9" * 18 + "." + "9" * 18,
    "0." + "0" * 61 + "1", "0." + "0" * 17 + "1", "." + "9" * 19, "1" + "." + "0" * 18 + "Ki",
    "1.000000000000000001", "1.0000000000000000001Ei", "9" * 18 + "n", "9" * 18 + "E", "0E", "0Ei",
    "100m", "1000m", "0.001", "0.0001", "2Gi", "4Gi", "64Mi", "2k", "1M", "1Mi",
)
RESOURCES = (
    "cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "rdma/hca", "hugepages-2Mi",
    "hugepages-", "gpu", "pods", "requests.nvidia.com/gpu", "example.com/A_b.c", "/gpu", "a/",
    "a/b/c", "", "CPU", "requests.cpu", "limits.cpu", "hugepages-2MB", "hugepages-64Ki", "ü/x",
)
KEYS = (
    "a", "A", "", "a/b", "example.com/rack", "kubernetes.io/hostname", "-a", "a" * 63, "a" * 64,
    "a" * 253 + "/b", "a" * 254 + "/b", "lockstep.dev/job", "lockstep.dev/other", "ü", "a/b/c",
    "a b",
    "topology.kubernetes.io/zone", "kueue.x-k8s.io/queue-name",
)
OF_OTHER_TYPES = (None, True, False, "x", 0, 1.5, [], {}, [None], [[]], {"a": None}, {"": 1}, ["x"])


class Raw(str):
    """A number as it is written."""


class Walk:
    """`bases` are good manifests. `schemas` have the openAPIV3Schema of each kind, and under "Pod"
    a function from a path in a pod's specification to Kubernetes' own schema of it."""

    def __init__(self, seed, bases, schemas):
        self._random = random.Random(seed)
        self._schemas = schemas
        self._document = copy.deepcopy(self._random.choice(bases))
        self._next = None

    def step(self):
        """The next manifest."""
        document = copy.deepcopy(self._document)
        roll = self._random.random()
        if roll < 0.45:
            self._put(document, hostile=False)
        elif roll < 0.85:
            self._put(document, hostile=True)
        elif roll < 0.93:
            self._remove(document)
        elif roll < 0.97:
            self._add_unknown(document)
        else:
            self._double(document)
        self._next = document
        return document

    def accepted(self):
        """The last one was taken."""
        if len(text_of(self._next)) < BYTES_MAX:
            self._document = self._next

    # Changes.

    def _put(self, document, hostile):
        """Sets one field that the schema has to a value that it may, or may not, take."""
        value, schema, way = document, self._schemas[document["kind"]], ()
        while True:
            kind = _shape(schema)
            child = None
            if kind == "object":
                child = self._pick_property(value, schema, way)
            elif kind == "array":
                child = self._pick_element(value, schema, way)
            elif kind == "map":
                child = self._pick_key(value, schema, way)
            if child is None:
                return
            key, inner = child
            is_there = key in value if isinstance(value, dict) else key < len(value)
            goes_on = _shape(inner) in ("object", "array", "map")
            if goes_on and is_there and isinstance(_at(value, key), (dict, list)) and (
                    self._random.random() < 0.93):
                value, schema, way = _at(value, key), inner, way + (key,)
                if isinstance(value, dict) == (_shape(schema) == "array"):
                    return
                continue
            made = self._hostile(inner, key) if hostile else self._good(inner, key, way, 0)
            if isinstance(value, list) and key == len(value):
                value.append(made)
            else:
                value[key] = made
            return

    def _pick_property(self, value, schema, way):
        names = sorted(schema["properties"])
        if not way:
            names = ["spec"] * 8 + ["metadata"] + self._random.choices(["kind", "apiVersion"], k=1)
            if self._random.random() < 0.97:
                names = names[:9]
        there = [name for name in names if isinstance(value.get(name), (dict, list))]
        name = self._random.choice(there if there and self._random.random() < 0.6 else names)
        return name, self._inner(schema["properties"][name], way + (name,))

    def _pick_element(self, value, schema, way):
        at = self._random.randrange(len(value) + 1)
        return at, self._inner(schema["items"], way + (at,))

    def _pick_key(self, value, schema, way):
        inner = schema["additionalProperties"]
        names = RESOURCES if _shape(inner) == "quantity" else KEYS
        key = self._random.choice(sorted(value) if value and self._random.random() < 0.5 else names)
        return key, self._inner(inner, way + (key,))

    def _inner(self, schema, way):
        """The schema of what stands there: Kubernetes' own where ours says nothing of it."""
        if "x-kubernetes-preserve-unknown-fields" in schema and way[:2] == ("spec", "roles"):
            path = [part for part in way[3:] if isinstance(part, str)]
            if path[:2] == ["template", "spec"]:
                foreign = self._schemas["Pod"](way[5:])
                if foreign is not None:
                    return foreign
        return schema

    def _remove(self, document):
        holder, key = self._random.choice(list(_places(document)))
        del holder[key]

    def _add_unknown(self, document):
        holders = [holder for holder, _ in _places(document) if isinstance(holder, dict)]
        self._random.choice(holders)[self._random.choice(KEYS)] = self._random.choice(
            OF_OTHER_TYPES)

    def _double(self, document):
        lists = [holder[key] for holder, key in _places(document)
                 if isinstance(holder[key], list) and holder[key]]
        if lists:
            chosen = self._random.choice(lists)
            times = self._random.choice((1, 1, 1, 4, 33, 65))
            chosen.extend(copy.deepcopy(chosen[:1]) * times)

    # Values.

    def _hostile(self, schema, key):
        shape = _shape(schema)
        roll = self._random.random()
        if roll < 0.15:
            return copy.deepcopy(self._random.choice(OF_OTHER_TYPES))
        if shape == "quantity":
            if roll < 0.3:
                return Raw(self._random.choice(NUMBERS))
            return self._random.choice(QUANTITIES)
        if shape in ("integer", "number", "extent"):
            return self._number_near(schema)
        if shape == "boolean":
            return self._random.choice(("true", 0, 1, None, Raw("1.0")))
        if shape == "string":
            return self._text_near(schema)
        if shape == "map":
            names = RESOURCES if _shape(schema["additionalProperties"]) == "quantity" else KEYS
            count = self._random.choice((0, 1, 3, 33))
            return {name: self._hostile(schema["additionalProperties"], name)
                    for name in self._random.sample(names, min(count, len(names)))}
        if shape == "array":
            count = self._random.choice((0, 1, 2, 5, schema.get("maxItems", 8) + 1))
            return [self._good(schema["items"], key, (), 4) for _ in range(count)]
        return copy.deepcopy(self._random.choice(OF_OTHER_TYPES))

    def _number_near(self, schema):
        near = []
        for bound in ("minimum", "maximum"):
            if bound in schema:
                number = schema[bound]
                near += [json.dumps(number), json.dumps(number - 1), json.dumps(number + 1),
                         json.dumps(float(number)), repr(number * (1 + 2 ** -50))]
        chosen = self._random.choice(near if near and self._random.random() < 0.6 else NUMBERS)
        return Raw(chosen) if self._random.random() < 0.95 else chosen

    def _text_near(self, schema):
        roll = self._random.random()
        if "enum" in schema and roll < 0.5:
            word = self._random.choice(schema["enum"])
            return self._random.choice((word.lower(), word + " ", word[:-1], word.upper()))
        if "maxLength" in schema and roll < 0.2:
            length = schema["maxLength"] + self._random.choice((-1, 0, 1))
            return self._random.choice(("a", "ü", "9")) * length
        if "pattern" in schema and roll < 0.5:
            text = self._matching(schema["pattern"])
            at = self._random.randrange(len(text) + 1)
            return text[:at] + self._random.choice("A-_./ ü0") + text[at:]
        return self._random.choice(TEXTS)

    def _good(self, schema, key, way, depth):
        schema = self._inner(schema, way + (key,)) if way else schema
        shape = _shape(schema)
        if shape == "object":
            return self._good_object(schema, way + (key,), depth)
        if shape == "array":
            least = schema.get("minItems", 0)
            most = min(schema.get("maxItems", least + 2), least + 2)
            count = self._random.randint(least, most) if depth < DEPTH_MAX else least
            return [self._good(schema["items"], i, way + (key,), depth + 1) for i in range(count)]
        if shape == "map":
            inner = schema["additionalProperties"]
            names = RESOURCES[:6] if _shape(inner) == "quantity" else KEYS[:5]
            return {name: self._good(inner, name, (), depth + 1)
                    for name in self._random.sample(names, self._random.randint(0, 3))}
        if shape == "quantity":
            return self._random.choice(("1", "2", 1, 2, "500m", "2Gi", "1e3", "64Mi", "1.5"))
        if shape == "extent":
            return self._random.choice((1, 2, [1, 2], [3, 3]))
        if shape == "integer":
            return self._good_integer(schema)
        if shape == "number":
            low, high = schema.get("minimum", -1e6), schema.get("maximum", 1e6)
            return self._random.choice((low, high, self._random.uniform(low, high), 1, 0.5))
        if shape == "boolean":
            return self._random.random() < 0.5
        if shape == "string":
            return self._good_text(schema, key)
        return copy.deepcopy(self._random.choice(OF_OTHER_TYPES))

    def _good_object(self, schema, way, depth):
        share = max(0.05, 0.4 - 0.1 * depth)
        made = {}
        for name, inner in schema.get("properties", {}).items():
            if name in schema.get("required", ()) or self._random.random() < share and (
                    depth < DEPTH_MAX):
                made[name] = self._good(inner, name, way, depth + 1)
        return made

    def _good_integer(self, schema):
        low = schema.get("minimum", -2)
        high = schema.get("maximum", 2 ** 31 - 1)
        return self._random.choice((low, high, max(low, 1), self._random.randint(low, high),
                                    self._random.randint(low, min(high, low + 8))))

    def _good_text(self, schema, key):
        if "enum" in schema:
            return self._random.choice(schema["enum"])
        if "pattern" in schema:
            return self._matching(schema["pattern"])[:schema.get("maxLength", 1000)]
        if schema.get("format") == "date-time":
            return "2026-11-21T10:22:03Z"
        likely = {
            "operator": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal"),
            "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
            "topologyKey": ("kubernetes.io/hostname", "example.com/rack"),
            "value": ("3000", "a", ""), "values": ("a", "1"),
            "imagePullPolicy": ("Always", "Never"),
            "protocol": ("TCP", "UDP"), "command": ("python3", "train.py", "a"),
            "schedulerName": ("default-scheduler", "other"),
        }.get(key, ("a", "b-1", "x.y", ""))
        return self._random.choice(likely)

    def _matching(self, pattern):
        text = self._from_pattern(re_parser.parse(pattern))
        return text if re.search(pattern, text) else "a"

    def _from_pattern(self, parsed):
        text = ""
        for code, argument in parsed:
            name = str(code)
            if name == "LITERAL":
                text += chr(argument)
            elif name == "NOT_LITERAL":
                text += "a" if argument != ord("a") else "b"
            elif name == "ANY":
                text += self._random.choice("aZ9-ü")
            elif name == "IN":
                text += self._from_set(argument)
            elif name == "BRANCH":
                text += self._from_pattern(self._random.choice(argument[1]))
            elif name == "SUBPATTERN":
                text += self._from_pattern(argument[-1])
            elif name in ("MAX_REPEAT", "MIN_REPEAT"):
                low, high, inner = argument
                high = min(int(high), low + self._random.choice((2, 20)))
                count = self._random.randint(low, high)
                text += "".join(self._from_pattern(inner) for _ in range(count))
        return text

    def _from_set(self, choices):
        characters = []
        for code, argument in choices:
            if str(code) == "LITERAL":
                characters.append(chr(argument))
            elif str(code) == "RANGE":
                characters += [chr(argument[0]), chr(argument[1]),
                               chr(self._random.randint(*argument))]
        return self._random.choice(characters)


def foreign_pods(openapi):
    """From Kubernetes' own schemas (/openapi/v3/api/v1): a function from a path in a pod's
    specification to the schema there; None where there is none."""
    schemas = openapi["components"]["schemas"]

    def resolved(schema, depth):
        while "$ref" in schema or "allOf" in schema:
            if "$ref" in schema:
                schema = schemas[schema["$ref"].rsplit("/", 1)[1]]
            else:
                schema = schema["allOf"][0]
        if depth == 0:
            return schema if "properties" not in schema else {"type": "object", "properties": {}}
        result = dict(schema)
        if "properties" in schema:
            result["properties"] = {name: resolved(inner, depth - 1)
                                    for name, inner in schema["properties"].items()}
        for below in ("items", "additionalProperties"):
            if isinstance(schema.get(below), dict):
                result[below] = resolved(schema[below], depth - 1)
        return result

    root = resolved({"$ref": "/io.k8s.api.core.v1.PodSpec"}, 9)

    def find(way):
        schema = root
        for part in way:
            below = "items" if isinstance(part, int) else "properties"
            schema = schema.get(below, {}) if isinstance(part, int) else (
                schema.get(below, {}).get(part, {}))
            if not schema:
                return None
        return schema

    return find


def text_of(document):
    """As JSON, each Raw number as it is written."""
    if isinstance(document, Raw):
        return str(document)
    if isinstance(document, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{text_of(value)}"
                              for key, value in document.items()) + "}"
    if isinstance(document, list):
        return "[" + ",".join(text_of(item) for item in document) + "]"
    return json.dumps(document)


def _shape(schema):
    if "x-kubernetes-int-or-string" in schema or schema.get("format") == "int-or-string":
        return "quantity"
    if "oneOf" in schema and "type" not in schema:
        return "quantity"
    if "multipleOf" in schema:
        return "extent"
    if schema.get("type") == "object" or "properties" in schema:
        if schema.get("properties"):
            return "object"
        return "map" if isinstance(schema.get("additionalProperties"), dict) else "opaque"
    return schema.get("type", "opaque")


def _at(holder, key):
    return holder[key]


def _places(value):
    """(holder, key) of everything inside."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(
        value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)

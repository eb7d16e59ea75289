"""Tables of the fields of a definition, for the site's page of all fields."""

import pathlib

import yaml

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]

_BOUNDS = (("minimum", "at least {}"), ("maximum", "at most {}"),
           ("minLength", "at least {} characters"), ("maxLength", "at most {} characters"),
           ("minItems", "items: at least {}"), ("maxItems", "items: at most {}"),
           ("maxProperties", "at most {} entries"))


def schema_of(definition):
    """The schema of a definition's only version."""
    text = (REPOSITORY / definition).read_text()
    return yaml.safe_load(text)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def fields_below(schema, path):
    """Every (path, schema, whether it is required) below `path`, in the definition's order. The
    elements of a list are PATH[], and the values of a map are PATH.NAME."""
    if schema.get("type") == "array":
        yield from fields_below(schema["items"], path + "[]")
    entries = schema.get("additionalProperties")
    if isinstance(entries, dict) and "properties" in entries:
        yield from fields_below(entries, path + ".NAME")
    for name, field in schema.get("properties", {}).items():
        yield f"{path}.{name}", field, name in schema.get("required", ())
        yield from fields_below(field, f"{path}.{name}")


def type_of(schema):
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or text"
    if schema.get("type") == "array":
        return "list of " + type_of(schema["items"])
    entries = schema.get("additionalProperties")
    if isinstance(entries, dict):
        return "map of " + type_of(entries)
    return {"string": "text", None: "any"}.get(schema.get("type"), schema.get("type"))


def allowed(schema):
    """What the schema says of a value, short enough for a cell."""
    said = []
    if "enum" in schema:
        said.append(", ".join(f"`{_text(value)}`" for value in schema["enum"]))
    said += [form.format(schema[name]) for name, form in _BOUNDS if name in schema]
    said = ["exactly 1 item"] if said == ["items: at least 1", "items: at most 1"] else said
    if "pattern" in schema:
        said.append(f"matches `{_cell(schema['pattern'])}`")
    if schema.get("type") == "array":
        said += [text for text in [allowed(schema["items"])] if text]
    return "; ".join(said)


def _cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ").strip()


def _text(value):
    return str(value).lower() if isinstance(value, bool) else _cell(value)


def _row(path, schema, required):
    default = f"`{_text(schema['default'])}`" if "default" in schema else ""
    if required:
        default = "required"
    cells = (f"`{path}`", type_of(schema), default, allowed(schema),
             _cell(schema.get("description", "")))
    return "| " + " | ".join(cells) + " |"


def tables(definition, section):
    """The Markdown of all fields of one section: a table for each field that has fields below it,
    and one for the others."""
    schema = schema_of(definition)["properties"][section]
    groups = {section: []}
    for path, field, required in fields_below(schema, section):
        top = ".".join(path.split(".")[:2]).replace("[]", "")
        if path == top and next(fields_below(field, ""), None):
            groups[top] = []
        groups[top if top in groups else section].append(_row(path, field, required))
    for title, rows in groups.items():
        if rows:
            yield from (f"### {title}", "", "| field | type | default | allowed | meaning |",
                        "|---|---|---|---|---|", *rows, "")

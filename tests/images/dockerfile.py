"""Rules for Dockerfiles. Each is a function from the instructions to what is wrong with them."""

import json
import pathlib
import re
from dataclasses import dataclass


@dataclass
class Instruction:
    line: int  # where it starts
    word: str  # FROM, RUN, ...
    rest: str  # continued lines joined by a blank, comments left out


def parse(text):
    instructions, joined, begin = [], "", None
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#") or (not line.strip() and begin is None):
            continue
        begin = begin or number
        joined += line.strip().removesuffix("\\").strip() + " "
        if not line.rstrip().endswith("\\"):
            word, _, rest = joined.strip().partition(" ")
            instructions.append(Instruction(begin, word.upper(), rest.strip()))
            joined, begin = "", None
    return instructions


def stages(instructions):
    """[(base, name or "", instructions of the stage)]; what is before the first FROM is not in."""
    found = []
    for each in instructions:
        if each.word == "FROM":
            base, _, name = re.match(r"(\S+)( AS (\S+))?$", each.rest, re.IGNORECASE).groups()
            found.append((base, name or "", []))
        elif found:
            found[-1][2].append(each)
    return found


def base_can_be_named(instructions, **_):
    """There may be no registry, or another one: the base comes from an argument, with a default."""
    first = instructions[0]
    if first.word != "ARG" or not re.fullmatch(r"BASE_IMAGE=[\w./-]+:[\w.-]+", first.rest):
        yield first.line, "the first instruction is not ARG BASE_IMAGE=IMAGE:TAG"
    elif first.rest.endswith(":latest"):
        yield first.line, "the base image's tag means another image every day"
    names = {"${BASE_IMAGE}", "scratch"}
    for each in instructions:
        if each.word == "FROM":
            base, _, name = each.rest.partition(" AS ")
            if base not in names:
                yield each.line, f"neither the base image nor a stage above: {base}"
            names.add(name)


def runs_unprivileged(instructions, **_):
    last = stages(instructions)[-1]
    users = [each for each in last[2] if each.word == "USER"]
    line = instructions[-1].line
    if not users:
        yield line, "the image runs as root: no USER in the last stage"
    elif not re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1].rest):
        yield users[-1].line, "USER is not NUMBER:NUMBER, which is what a kubelet can check"


def starts_without_a_shell(instructions, **_):
    last = stages(instructions)[-1]
    entries = [each for each in last[2] if each.word == "ENTRYPOINT"]
    if not entries:
        yield instructions[-1].line, "no ENTRYPOINT in the last stage"
    for each in entries:
        try:
            json.loads(each.rest)
        except ValueError:
            yield each.line, "a shell would stand between signals and the program: write a list"


def downloads_are_checked(instructions, **_):
    """Only package managers download: they check what they get."""
    for each in instructions:
        if each.word == "ADD":
            yield each.line, "ADD downloads and unpacks as it likes: COPY"
        if each.word == "RUN" and re.search(r"\b(curl|wget)\b", each.rest):
            yield each.line, "a download without a signature"
        if each.word == "RUN" and "pip install" in each.rest:
            for package in re.findall(r"\s(nvidia-\S+|torch\S*)", each.rest):
                if "==" not in package:
                    yield each.line, f"{package} without a version"


def layers_hold_no_leftovers(instructions, **_):
    for each in instructions:
        if each.word != "RUN" or not re.search(r"apt-get|install\.sh (?!--path)", each.rest):
            continue
        if "rm -rf /var/lib/apt/lists/*" not in each.rest:
            yield each.line, "the package lists stay in the layer"
        if "apt-get install" in each.rest and "--no-install-recommends" not in each.rest:
            yield each.line, "apt-get install without --no-install-recommends"


def copies_what_is_there(instructions, repository, **_):
    ignored = ignore_rules((repository / ".dockerignore").read_text())
    names = {name for _, name, _ in stages(instructions)}
    for each in instructions:
        if each.word != "COPY":
            continue
        words = each.rest.split()
        source = next((word[7:] for word in words if word.startswith("--from=")), None)
        paths = [word for word in words if not word.startswith("--")][:-1]
        if source is not None:
            if source not in names:
                yield each.line, f"no stage {source}"
            continue
        for path in paths:
            if not (repository / path).exists():
                yield each.line, f"no {path}"
            elif path != "." and is_ignored(path, ignored):
                yield each.line, f".dockerignore keeps {path} out"


def every_stage_is_used(instructions, **_):
    text = " ".join(f"{each.word} {each.rest}" for each in instructions)
    for _, name, _ in stages(instructions)[:-1]:
        if not re.search(rf"(FROM {name}\b|--from={name}\b)", text):
            yield instructions[0].line, f"stage {name} is for nothing"


RULES = (
    base_can_be_named,
    runs_unprivileged,
    starts_without_a_shell,
    downloads_are_checked,
    layers_hold_no_leftovers,
    copies_what_is_there,
    every_stage_is_used,
)


def findings(text, repository):
    instructions = parse(text)
    for rule in RULES:
        for line, problem in rule(instructions, repository=repository):
            yield f"{line}: {problem}"


def ignore_rules(text):
    """[(pattern, whether it lets in again)]; the last that fits decides."""
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    return [(line.removeprefix("!"), line.startswith("!")) for line in lines]


def is_ignored(path, rules):
    ways = [pathlib.PurePath(path), *pathlib.PurePath(path).parents][:-1]
    ignored = False
    for pattern, lets_in in rules:
        if any(way.match(pattern) for way in ways):
            ignored = not lets_in
    return ignored

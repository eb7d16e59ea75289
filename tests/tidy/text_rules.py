"""Rules about the text of one file."""

import ast
import re

COLUMNS_MAX = 100
DOCUMENT_COLUMNS_MAX = 120
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

# Files still above the limit, with their length: they may shrink only, and then leave this list.
FILE_LINES_RATCHET = {}

LINE_LIMITED = (".cc", ".h", ".cu", ".cuh", ".py", ".sh", ".cmake", "CMakeLists.txt")
SOURCE_SUFFIXES = (".cc", ".h", ".cu", ".cuh", ".py", ".sh")

# Deciding code: values in, values out.
PURE = re.compile(
    r"^(operator/(scheduler|capacity|reconcile|api|kubeclient/kube|yaml)/|common/contract/"
    r"|trainer-runtime/\w+/(membership|bucket_plan|shard_plan|permutation)\b"
    r"|trainer-runtime/strategy/parameter_server/)"
)
BANNED_IN_PURE = {
    re.compile(r"#\s*include\s*<(thread|mutex|shared_mutex|condition_variable|future)>"): "threads",
    re.compile(r"#\s*include\s*<(fstream|filesystem)>"): "files",
    re.compile(r"#\s*include\s*<(sys/socket|unistd|fcntl|poll)\.h>"): "system calls",
    re.compile(r"\bgetenv\b"): "the environment",
    re.compile(r"::now\s*\(|\bSteadyNow\s*\(|\bSystemClock\b"): "a clock",
    re.compile(r"\brandom_device\b|\bRandomHex\s*\("): "chance without a seed",
}

# What clang 14 cannot parse on this standard library, and coroutines (frames are freed twice).
BANNED_EVERYWHERE = {
    re.compile(r"\bstd::source_location\b|<source_location>"): "std::source_location",
    re.compile(r"\bstd::(ranges::)?views::"): "a view pipeline",
    re.compile(r"\bco_(await|yield|return)\b"): "a coroutine",
}

_TEST_NAME = re.compile(
    r"\b(?:TYPED_)?TEST(?:_F|_P)?\s*\(\s*(?P<suite>\w+)\s*,\s*(?P<name>\w+)\s*\)", re.DOTALL
)
_TODO = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\s*\(?\s*#\d+)")
_HOME = re.compile(r"(?<![\w.])/(?:home/\w|root/|Users/\w)|[A-Z]:\\\\?Users\b")
_TABLE = re.compile(r"=\s*$")
_CODE_SPAN = re.compile(r"`[^`]*`")
_LEAD = re.compile(r"^\s*([-*]\s+|\d+\.\s+)?")
_MORE_HEAD = re.compile(r"\s*[,{]")
_NOT_A_FUNCTION = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")


def check_limits(file):
    if not file.path.endswith(LINE_LIMITED):
        return
    for number, line in enumerate(file.lines, 1):
        if len(line) > COLUMNS_MAX:
            yield file.finding(number, f"{len(line)} columns, the limit is {COLUMNS_MAX}")
    if not file.path.endswith(SOURCE_SUFFIXES):
        return
    count = len(file.lines)
    limit = FILE_LINES_RATCHET.get(file.path, FILE_LINES_MAX)
    if count > limit:
        yield file.finding(limit + 1, f"{count} lines, the limit is {limit} a file")
    elif file.path in FILE_LINES_RATCHET and count < limit:
        yield file.finding(1, f"{count} lines now: lower or remove it in FILE_LINES_RATCHET")


def check_function_length(file):
    if file.is_cpp:
        functions = _cpp_functions(file)
    elif file.path.endswith(".py"):
        functions = _python_functions(file)
    else:
        return
    for line, length in functions:
        if length > FUNCTION_LINES_MAX:
            yield file.finding(
                line, f"function of {length} lines, the limit is {FUNCTION_LINES_MAX}"
            )


def _cpp_functions(file):
    """(line, lines) of each outermost function body. Needs balanced braces, not a parser: a block
    is a function's when what stands before it has a parameter list and is no type or data. The
    rows of a table (`= {...}`) inside a function are data and do not count."""
    code = re.sub(r"^\s*#.*", "", file.code, flags=re.MULTILINE)
    open_blocks = []  # offsets of "{"
    function = None  # (depth, table lines so far)
    head_begin = 0
    for match in re.finditer(r"[{};]", code):
        if match.group() == "{":
            if function is None and _is_function_head(code[head_begin : match.start()]):
                function = (len(open_blocks), 0)
            open_blocks.append(match.start())
        elif match.group() == "}" and open_blocks:
            begin = open_blocks.pop()
            lines = code.count("\n", begin, match.start()) - 1
            if function is not None and function[0] == len(open_blocks):
                tables = function[1]
                function = None
                if _MORE_HEAD.match(code, match.end()):
                    continue  # a member initialised by braces; the constructor's body follows
                yield code.count("\n", 0, begin) + 1, lines - tables
            elif function is not None and _TABLE.search(code, max(0, begin - 3), begin):
                function = (function[0], function[1] + max(lines, 0))
        if function is None:
            head_begin = match.end()


def _is_function_head(head):
    if ")" not in head or _NOT_A_FUNCTION.search(head.split("(")[0]):
        return False
    # "x = f({": data. Operators named with '=' and default arguments stand inside or after "(".
    before_arguments = head.split("(")[0]
    return "=" not in before_arguments or "operator" in before_arguments


def _python_functions(file):
    try:
        tree = ast.parse(file.text or "")
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1


def check_pure_folders(file):
    if not file.is_cpp or file.is_test or not PURE.match(file.path):
        return
    for number, line in enumerate(file.code_lines, 1):
        for pattern, what in BANNED_IN_PURE.items():
            if pattern.search(line):
                yield file.finding(number, f"deciding code uses {what}: `{line.strip()}`")


def check_banned_names(file):
    if not file.is_cpp:
        return
    for number, line in enumerate(file.code_lines, 1):
        for pattern, what in BANNED_EVERYWHERE.items():
            if pattern.search(line):
                yield file.finding(number, f"{what} is not used here: see docs/decisions")


def check_todos(file):
    if file.text is None or file.path.startswith("tests/tidy/"):
        return
    for number, line in enumerate(file.lines, 1):
        match = _TODO.search(line)
        if match:
            yield file.finding(number, f"{match.group(1)} without an issue, write TODO(#12)")


def check_test_names(file):
    if not file.is_cpp:
        return
    for match in _TEST_NAME.finditer(file.code):
        for part in (match["suite"], match["name"]):
            if "_" in part:
                yield file.finding(
                    file.line_at(match.start()), f"test name {part} has an underscore"
                )


def check_home_paths(file):
    if file.text is None or file.path.startswith("tests/tidy/"):
        return
    for number, line in enumerate(file.lines, 1):
        match = _HOME.search(line)
        if match:
            yield file.finding(number, f"path of one person's machine: {match.group()}")


def check_pragma_once(file):
    if file.path.endswith((".h", ".cuh")) and "#pragma once" not in file.code:
        yield file.finding(1, "header without #pragma once")


def prose_lines(file):
    """(number, line) of a document outside of its blocks of code."""
    in_code = False
    for number, line in enumerate(file.lines, 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield number, line


def check_one_title(file):
    """A document starts with its title, and has one."""
    if not file.path.endswith(".md"):
        return
    titles = [number for number, line in prose_lines(file) if line.startswith("# ")]
    if not titles:
        yield file.finding(1, "document without a title")
    for number in titles[1:]:
        yield file.finding(number, "second title; a document has exactly one")


def check_document_width(file):
    """Of prose: tables and what stands as it is typed are as long as they are, and so is what has
    no place to break at."""
    if not re.match(r"(README|docs/.*)\.md$", file.path):
        return
    for number, line in prose_lines(file):
        can_break = " " in _CODE_SPAN.sub("", _LEAD.sub("", line))
        if len(line) > DOCUMENT_COLUMNS_MAX and can_break and not line.startswith("|"):
            yield file.finding(
                number, f"{len(line)} columns, the limit is {DOCUMENT_COLUMNS_MAX} in documents"
            )


FILE_RULES = (
    check_limits,
    check_function_length,
    check_pure_folders,
    check_banned_names,
    check_todos,
    check_test_names,
    check_home_paths,
    check_pragma_once,
    check_one_title,
    check_document_width,
)

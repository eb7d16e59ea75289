# What an interpreter that is kept warm runs (warm_interpreter.h): it imports modules, then forks a
# process for each start of the program, which begins as if the interpreter had just been started.
# It is read from a socket by `python3 -c`, with the arguments DESCRIPTOR MODULES [-u] PROGRAM...
#
# Messages on the socket, of JSON: {"ready": THREADS} or {"failed": WHY} from here; then for each
# start {"environment": {...}, "kept": NAME} with the descriptors of input, output, error, gate and
# perhaps one that is kept and whose number the variable NAME tells. The process writes its number
# to its gate, and begins once a byte comes back; the end of the gate ends it.

import array
import ctypes
import io
import json
import os
import runpy
import socket
import sys
import time
import types

PR_SET_PDEATHSIG = 1
SIGKILL = 9
DESCRIPTORS_MAX = 5
MESSAGE_BYTES_MAX = 1 << 17
# What a module imports only once it is used, and every program that trains uses it: torch imports
# _dynamo with the first optimizer, which takes seconds.
IMPORTED_LATE = {"torch": "torch._dynamo"}
REPARENT_PATIENCE_SECONDS = 5.0  # for the kernel to give an orphan to the supervisor: microseconds


def reason_of(error):
    return "%s: %s" % (type(error).__name__, error)


def first_path(program):
    """What Python puts before all other folders: that of the script, or the current one for -m."""
    return os.getcwd() if program[0] == "-m" else os.path.dirname(os.path.realpath(program[0]))


def import_late(module):
    try:
        __import__(IMPORTED_LATE.get(module, module))
    except Exception:  # of torch before 2.0, or without what it needs: the program may do without
        pass


def import_modules(modules, program):
    if sys.path and sys.path[0] == "":  # of -c; not there with PYTHONSAFEPATH
        sys.path[0] = first_path(program)
    folder = os.getcwd()
    for module in modules:
        __import__(module)
        import_late(module)
    if os.getcwd() != folder:  # where a plain start would not be before it imports them itself
        raise RuntimeError("modules have changed the working directory to " + os.getcwd())
    # What they have printed would be written once more by each fork.
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)


def try_fork():
    """Libraries that stop their threads for a fork (OpenBLAS does) have stopped them then."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def receive_start(server):
    """The next order and its descriptors; None when the supervisor is gone."""
    room = socket.CMSG_SPACE(DESCRIPTORS_MAX * array.array("i").itemsize)
    message, ancillary, _, _ = server.recvmsg(MESSAGE_BYTES_MAX, room)
    if not message:
        return None
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[:len(data) - len(data) % descriptors.itemsize])
    return json.loads(message.decode()), list(descriptors)


def fork_orphan():
    """Forks twice: a process whose parent has ended goes to the supervisor, who waits for it and
    hears how it ended, as of any other. True in that process."""
    between = os.fork()
    if between != 0:
        os.waitpid(between, 0)
        return False
    try:
        if os.fork() != 0:
            os._exit(0)
    except OSError:  # no room: the gate tells it by its end
        os._exit(1)
    return True


def await_supervisor(supervisor):
    """Until the supervisor is the parent, whose end is to be this process's end as well."""
    deadline = time.monotonic() + REPARENT_PATIENCE_SECONDS
    while os.getppid() != supervisor:
        if time.monotonic() > deadline:
            os._exit(70)
        time.sleep(0.0002)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    if os.getppid() != supervisor:
        os._exit(70)


def become_process(server, supervisor, order, descriptors):
    os.setpgid(0, 0)
    await_supervisor(supervisor)
    server.close()
    source, output, error, gate = descriptors[:4]
    for descriptor, number in ((source, 0), (output, 1), (error, 2)):
        os.dup2(descriptor, number)  # which inherits to programs
        os.close(descriptor)
    environment = dict(order["environment"])
    for kept in descriptors[4:]:  # inherits, as it came through a socket
        environment[order["kept"]] = str(kept)
    os.environ.update(environment)
    os.write(gate, str(os.getpid()).encode())
    if not os.read(gate, 1):
        os._exit(0)
    os.close(gate)
    if "numpy.random" in sys.modules:  # Python's own generator seeds itself anew in a fork
        sys.modules["numpy.random"].seed()
    if "lockstep_hang" in sys.modules:  # torch calls it where it is imported: before this
        sys.modules["lockstep_hang"].start()


def make_main(program):
    """The process's __main__ and arguments as modules see them that are imported by it."""
    main = types.ModuleType("__main__")
    main.__builtins__ = sys.modules["builtins"]
    sys.modules["__main__"] = main
    if program[0] == "-m":
        sys.argv = ["-m"] + program[2:]
        return
    sys.argv = list(program)
    main.__file__ = program[0] if sys.version_info < (3, 9) else os.path.abspath(program[0])
    main.__cached__ = None


def run_program(program):
    """Runs the program in this process's __main__, as `python3 PROGRAM...` would."""
    if program[0] == "-m":
        runpy._run_module_as_main(program[1])
        return
    main = sys.modules["__main__"]
    script = main.__file__
    try:
        with io.open(script, "rb") as file:
            text = file.read()
    except OSError as error:
        print("%s: can't open file %r: [Errno %d] %s" % (
            sys.executable, script, error.errno, error.strerror), file=sys.stderr)
        raise SystemExit(2)
    from importlib.machinery import SourceFileLoader

    main.__loader__ = SourceFileLoader("__main__", script)
    exec(compile(text, script, "exec", dont_inherit=True), main.__dict__)


def hide_own_frames():
    """Tracebacks of the program begin with the program, whoever prints them."""
    hook = sys.excepthook
    own = (__file__, "<string>")

    def show(kind, error, traceback):
        while traceback is not None and traceback.tb_frame.f_code.co_filename in own:
            traceback = traceback.tb_next
        hook(kind, error.with_traceback(traceback), traceback)

    sys.excepthook = show


def serve(server, modules, program):
    """Returns in each process that it forks; ends the server when the supervisor is gone."""
    supervisor = os.getppid()
    try:
        import_modules(modules, program)
        try_fork()
        threads = len(os.listdir("/proc/self/task")) - 1
    except BaseException as error:  # modules may end the interpreter as well
        server.send(json.dumps({"failed": reason_of(error)}).encode())
        os._exit(1)
    server.send(json.dumps({"ready": threads}).encode())
    while True:
        received = receive_start(server)
        if received is None:
            os._exit(0)
        order, descriptors = received
        try:
            is_process = fork_orphan()
        except OSError:  # the same
            is_process = False
        if is_process:
            become_process(server, supervisor, order, descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def main(server):
    modules, words = sys.argv[2].split(","), sys.argv[3:]
    if sys.version_info >= (3, 10):
        sys.orig_argv = sys.orig_argv[:1] + words
    program = words[1:] if words[0] == "-u" else words
    make_main(program)
    serve(server, modules, program)
    try:
        run_program(program)
    except BaseException:
        hide_own_frames()
        raise

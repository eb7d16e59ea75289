"""Stands between a client and the API server and misbehaves at a chosen request.

    proxy = Proxy(plane, "operator")
    proxy.rule = lambda request: Fault(after=operator.kill) if request.write == 7 else None
    Operator(plane, kubeconfig=proxy.kubeconfig)

The client's connections are terminated here, so that whole requests are seen and counted."""

import dataclasses
import select
import socket
import ssl
import threading

_CHUNK = 65536
_READING = ("GET", "HEAD", "OPTIONS")


@dataclasses.dataclass(frozen=True)
class Request:
    method: str
    path: str
    body: bytes
    write: int  # the how many-th request that changes something, from 1; 0 for one that only reads

    @property
    def is_write(self):
        return self.method not in _READING


@dataclasses.dataclass(frozen=True)
class Fault:
    """What to do to one request. The connection is closed in every case.

    before  called instead of passing the request on: the server never hears of it
    after   called when the server has answered: the client never hears of that
    answer  sent instead of passing it on: (code, headers, body)"""

    before: object = None
    after: object = None
    answer: object = None


class Proxy:
    """`rule` is asked for every request and returns None or a Fault; it is called in threads.
    `writes` holds the (method, path) of all writes so far, also of those that met a fault;
    `address` is where it listens and `kubeconfig` names it."""

    def __init__(self, plane, user):
        self.rule = lambda request: None
        self.writes = []
        self._plane = plane
        self._lock = threading.Lock()
        self._open = set()
        self._server = socket.socket()
        self._server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._server.bind((plane.local_address, 0))
        self._server.listen(64)
        host, port = self.address = self._server.getsockname()
        certificate, key = plane.credentials.make_certificate(
            f"proxy-{port}", "/CN=proxy", addresses=[host]
        )
        self._outer = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._outer.load_cert_chain(certificate, key)
        self._inner = ssl.create_default_context(cafile=plane.credentials.ca_file)
        self.kubeconfig = plane.credentials.kubeconfig(
            user, f"https://{host}:{port}", file_name=f"proxy-{port}"
        )
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self):
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()
        self.cut()

    def cut(self):
        """Breaks all connections at once, as a network does."""
        with self._lock:
            sockets = list(self._open)
        for each in sockets:
            _shut(each)

    def _accept(self):
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, raw):
        client = server = None
        try:
            client = self._outer.wrap_socket(raw, server_side=True)
            address = (self._plane.host, self._plane.port)
            server = self._inner.wrap_socket(
                socket.create_connection(address, timeout=30), server_hostname=self._plane.host
            )
            server.settimeout(None)
            with self._lock:
                self._open |= {client, server}
            _Exchange(self, client, server).run()
        except OSError:
            pass  # one side has gone: so does the other
        finally:
            for each in (client or raw, server):
                if each is not None:
                    with self._lock:
                        self._open.discard(each)
                    _shut(each)
                    each.close()

    def judge(self, method, path, body):
        """Counts the request and returns the Fault that it meets, or None."""
        with self._lock:
            write = 0
            if method not in _READING:
                self.writes.append((method, path))
                write = len(self.writes)
        return self.rule(Request(method, path, body, write))


class _Exchange:
    """The requests of one connection, one after the other, and their answers. One thread does
    both: a TLS connection may not be used by two."""

    def __init__(self, proxy, client, server):
        self._proxy, self._client, self._server = proxy, client, server
        self._received = b""
        self._after = None

    def run(self):
        both = (self._client, self._server)
        while True:
            ready = [each for each in both if each.pending()]
            for connection in ready or select.select(both, (), ())[0]:
                data = _receive(connection)
                if data is None:
                    continue
                passed = self._answer(data) if connection is self._server else self._ask(data)
                if not data or not passed:
                    return

    def _answer(self, data):
        if data and self._after is not None:
            self._after()
            return False
        self._client.sendall(data)
        return True

    def _ask(self, data):
        self._received += data
        while size := _request_size(self._received):
            request, self._received = self._received[:size], self._received[size:]
            method, path, _ = request.split(b" ", 2)
            body = request.partition(b"\r\n\r\n")[2]
            fault = self._proxy.judge(method.decode(), path.decode(), body)
            if fault is not None and fault.after is None:
                if fault.answer is not None:
                    self._client.sendall(_format_answer(*fault.answer))
                elif fault.before is not None:
                    fault.before()
                return False
            self._after = fault and fault.after
            self._server.sendall(request)
        return True


def _receive(connection):
    """None where what has arrived is not for us but for TLS itself."""
    connection.setblocking(False)
    try:
        return connection.recv(_CHUNK)
    except ssl.SSLWantReadError:
        return None
    finally:
        connection.setblocking(True)


def _request_size(received):
    """How many bytes the first request has; 0 while it is not complete."""
    head, end, rest = received.partition(b"\r\n\r\n")
    if not end:
        return 0
    fields = [line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:]]
    values = {name: value.strip() for name, value in fields}
    size = len(head) + len(end)
    if values.get(b"transfer-encoding") == b"chunked":
        last = rest.find(b"0\r\n\r\n")  # no body of ours has this inside
        return size + last + 5 if last >= 0 else 0
    size += int(values.get(b"content-length", 0))
    return size if len(received) >= size else 0


def _format_answer(code, headers, body):
    lines = [f"HTTP/1.1 {code} Test", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def _shut(connection):
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # already

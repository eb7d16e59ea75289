"""One rank of a program that meets as Horovod 0.28 does: the same requests to the rendezvous, byte
by byte, and connections between all ranks, over which they then tell each other who they are.

usage: horovod_rank.py [linger-in-meeting|linger]   in the first attempt, do not go on by yourself
"""

import os
import pathlib
import socket
import struct
import sys
import time

RANK = int(os.environ["HOROVOD_RANK"])
SIZE = int(os.environ["HOROVOD_SIZE"])
LOCAL = int(os.environ["HOROVOD_LOCAL_RANK"]), int(os.environ["HOROVOD_LOCAL_SIZE"])
CROSS = int(os.environ["HOROVOD_CROSS_RANK"]), int(os.environ["HOROVOD_CROSS_SIZE"])
HOST = os.environ["HOROVOD_HOSTNAME"]
RENDEZVOUS = (os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"],
              int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"]))
ATTEMPT = int(os.environ["LOCKSTEP_ATTEMPT"])
ADDRESS_BYTES = 136
TIMEOUT_SECONDS = int(os.environ.get("HOROVOD_GLOO_TIMEOUT_SECONDS", "30"))
TRIES = 3  # of each request, half a second apart
SETS = ("", "_process_set_hash_5a3c")


def request_once(method, path, body):
    with socket.create_connection(RENDEZVOUS, timeout=TIMEOUT_SECONDS) as connection:
        connection.sendall(f"{method} {path} HTTP/1.1\r\nHost: {RENDEZVOUS[0]}\r\n"
                           f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = b""
        while block := connection.recv(4096):
            answer += block
    head, _, value = answer.partition(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    length = int(head.split(b"\r\nContent-Length: ")[1].split(b"\r\n")[0])
    if status not in (200, 404) or length != len(value):
        raise OSError(f"answer {head!r} with {len(value)} bytes")
    return status, value


def request(method, path, body=b""):
    for _ in range(TRIES):
        try:
            return request_once(method, path, body)
        except OSError as error:
            print(f"{method} {path}: {error}")
            time.sleep(0.5)
    raise RuntimeError("HTTP request failed.")


def receive(connection, count):
    data = b""
    while len(data) < count:
        block = connection.recv(count - len(data))
        if not block:
            raise ConnectionError("Connection closed by peer")
        data += block
    return data


def connect_full_mesh(scope, rank, size):
    """Connections to all others of the scope, by rank; as gloo does it."""
    request("PUT", f"/{scope}/rank_{rank}", socket.gethostname().encode())
    for other in range(rank):
        request("GET", f"/{scope}/rank_{other}")
    servers = {other: socket.create_server(("127.0.0.1", 0)) for other in range(size)
               if other != rank}
    addresses = [struct.pack(f"<H{ADDRESS_BYTES - 2}x", server.getsockname()[1])
                 for server in servers.values()]
    request("PUT", f"/{scope}/{rank}", b"".join(addresses))
    if "linger-in-meeting" in sys.argv and ATTEMPT == 0:
        linger()
    peers = {}
    for other in servers:
        start = time.monotonic()
        while request("GET", f"/{scope}/{other}")[0] == 404:
            if time.monotonic() - start > TIMEOUT_SECONDS:
                raise RuntimeError(f"Wait timeout after {TIMEOUT_SECONDS} seconds for key: {other}")
            time.sleep(0.01)
        value = request("GET", f"/{scope}/{other}")[1]
        place = ADDRESS_BYTES * (rank - 1 if rank > other else rank)
        port, = struct.unpack_from("<H", value, place)
        if rank < other:
            peers[other] = servers[other].accept()[0]
        else:
            peers[other] = socket.create_connection(("127.0.0.1", port))
    return peers


def tell_each_other(peers):
    """What each rank of a scope is, in its order. Also a barrier."""
    for peer in peers.values():
        peer.sendall(struct.pack("<HH", ATTEMPT, RANK))
    told = {other: struct.unpack("<HH", receive(peer, 4)) for other, peer in peers.items()}
    for attempt, _ in told.values():
        if attempt != ATTEMPT:
            raise RuntimeError(f"met rank of attempt {attempt} in {ATTEMPT}")
    return [rank for _, rank in told.values()]


def linger():
    pathlib.Path(f"lingers-{RANK}").write_text(f"{os.getpid()}")
    time.sleep(3600)


def main():
    print(f"attempt {ATTEMPT} begins")
    connected = {}
    for suffix in SETS:
        for scope, rank, size in ((f"global{suffix}", RANK, SIZE),
                                  (f"local_{HOST}{suffix}", *LOCAL),
                                  (f"cross_{LOCAL[0]}{suffix}", *CROSS)):
            connected[scope] = connect_full_mesh(scope, rank, size)
            others = tell_each_other(connected[scope])
            request("DELETE", f"/{scope}/{rank}")
            print(f"attempt {ATTEMPT} in {scope}: met {others}")
    tell_each_other(connected["global"])  # rank 0 serves the others until then
    if "linger" in sys.argv and ATTEMPT == 0:
        pathlib.Path(f"lingers-{RANK}").write_text(f"{os.getpid()}")
        for peer in connected["global"].values():
            receive(peer, 1)  # ends with the peer
    print(f"attempt {ATTEMPT} is done")


if __name__ == "__main__":
    main()

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace lockstep::control {

// Where a process of the run is to listen.
struct ListenPlace {
  std::string address;         // numeric, IPv4
  int port = 0;                // above 0
  bool is_everywhere = false;  // its program may bind all addresses of the machine

  friend bool operator==(const ListenPlace&, const ListenPlace&) = default;
};

// Whether a server could listen there now. Errors: kAlreadyExists, naming the place and, where this
// process may see it, the process that has it: "127.83.7.2:12051 is in use by process 4711
// (python3)"; kIo and its kin: the machine grants no socket to try it with. Takes some milliseconds
// where the port is taken.
Status CheckFree(const ListenPlace& place);

// One socket of /proc/net/tcp or tcp6 that has a process.
struct SocketEntry {
  std::string address;  // hexadecimal, as the kernel writes it; zeros: all addresses
  int port = 0;         // its own
  bool listens = false;
  uint64_t inode = 0;
};

// Parses such a table; lines that read otherwise are left out. Source: proc(5). Pure.
std::vector<SocketEntry> ParseSockets(std::string_view table);

// "process 4711 (python3)", who has a socket that keeps others from listening at `place`; one that
// listens comes first. Empty: no such process can be seen, as one of another user cannot.
std::string NameHolder(const ListenPlace& place);

}  // namespace lockstep::control

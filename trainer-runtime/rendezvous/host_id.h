#pragma once

#include <string>

namespace lockstep::runtime {

// Names the place where a process runs: equal ids mean one running kernel, one network namespace
// and one user, so that abstract Unix sockets connect and memory can be shared through them.
// Where the system hides one of these the id is random: processes then never share memory.
std::string ReadHostId();

}  // namespace lockstep::runtime

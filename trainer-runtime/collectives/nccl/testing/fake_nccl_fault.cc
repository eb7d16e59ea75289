#include "trainer-runtime/collectives/nccl/testing/fake_nccl_fault.h"

#include <cstdlib>
#include <fcntl.h>
#include <sstream>
#include <unistd.h>

namespace lockstep::runtime {
namespace {

FakeNcclFault Parse(const std::string& text) {
  FakeNcclFault fault;
  std::istringstream parts(text);
  std::getline(parts, fault.kind, '@');
  for (std::string part; std::getline(parts, part, '@');) {
    const std::string name = part.substr(0, part.find('='));
    const std::string value = part.substr(name.size() + 1);
    if (name == "rank") {
      fault.rank = std::stoi(value);
    } else if (name == "call") {
      fault.call = std::stoi(value);
    } else if (name == "ms") {
      fault.milliseconds = std::stoi(value);
    } else if (name == "once") {
      fault.once_file = value;
    } else {
      std::abort();  // a test that orders what there is not
    }
  }
  return fault;
}

// Whether this is the first time.
bool MakeFile(const std::string& path) {
  const int file = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file >= 0) {
    ::close(file);
  }
  return file >= 0;
}

}  // namespace

std::optional<FakeNcclFault> OrderedFault(const std::string& kind, int rank, int call) {
  const char* const text = std::getenv("FAKE_NCCL_FAULT");
  std::istringstream orders(text == nullptr ? "" : text);
  for (std::string order; std::getline(orders, order, ';');) {
    FakeNcclFault fault = Parse(order);
    const bool is_here = fault.rank < 0 || fault.rank == rank;
    if (fault.kind == kind && is_here && fault.call == call &&
        (fault.once_file.empty() || MakeFile(fault.once_file))) {
      return fault;
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::runtime

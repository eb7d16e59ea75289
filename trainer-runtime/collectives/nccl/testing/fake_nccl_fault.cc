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
    } else if (name == "bytes") {
      fault.byte_count = std::stoul(value);
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

// The first order of that kind for this rank of which `is_meant`, if it is to happen now.
template <typename IsMeant>
std::optional<FakeNcclFault> FindFault(const std::string& kind, int rank, IsMeant is_meant) {
  const char* const text = std::getenv("FAKE_NCCL_FAULT");
  std::istringstream orders(text == nullptr ? "" : text);
  for (std::string order; std::getline(orders, order, ';');) {
    FakeNcclFault fault = Parse(order);
    const bool is_here = fault.rank < 0 || fault.rank == rank;
    if (fault.kind == kind && is_here && is_meant(fault) &&
        (fault.once_file.empty() || MakeFile(fault.once_file))) {
      return fault;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<FakeNcclFault> OrderedFault(const std::string& kind, int rank, int call) {
  return FindFault(kind, rank, [call](const FakeNcclFault& fault) { return fault.call == call; });
}

bool HasNoWay(int rank, std::size_t byte_count) {
  const auto is_so_large = [byte_count](const FakeNcclFault& fault) {
    return byte_count >= fault.byte_count;
  };
  return FindFault("no-way", rank, is_so_large).has_value();
}

}  // namespace lockstep::runtime

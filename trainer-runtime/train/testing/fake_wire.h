#pragma once

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "common/base/io/unique_fd.h"

namespace lockstep::runtime {

// Links [rank][peer] between all pairs of a world; the diagonal is empty.
using Links = std::vector<std::vector<UniqueFd>>;

// Stands between one rank and all others and carries what they send each other, until the rank has
// sent so many bytes: then every link closes, in the middle of whatever call that is. To the others
// it looks like a process killed there: one has its last message, another a part of it, a third
// nothing.
class FakeWire {
 public:
  // Takes the place of the ends in `links[victim]`. Precondition: none is in use yet.
  FakeWire(Links* links, std::size_t victim, int64_t bytes_until_death);

  FakeWire(const FakeWire&) = delete;
  FakeWire& operator=(const FakeWire&) = delete;

 private:
  // One link, cut in two.
  struct Splice {
    UniqueFd to_victim;
    UniqueFd to_peer;
  };

  void Carry(const std::stop_token& stop);
  bool CarryOne(Splice* splice);

  int64_t bytes_left_;
  std::vector<Splice> splices_;
  std::jthread thread_;  // last: ends before what it uses
};

}  // namespace lockstep::runtime

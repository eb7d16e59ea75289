#pragma once

#include <chrono>
#include <ostream>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/time.h"
#include "trainer-runtime/collectives/nccl/testing/nccl_gang.h"

// For tests only: everything that can go wrong on order in the double of NCCL, on its rank 1.

namespace lockstep::runtime {

inline constexpr Duration kFaultTimeout = std::chrono::milliseconds(300);  // where it is about time

struct NcclFault {
  const char* name;
  const char* order;           // see fake_nccl_fault.h
  ErrorCode own;               // of the process where it goes wrong
  ErrorCode others;            // of the other processes
  const char* cause;           // in the words of all
  bool is_about_time = false;  // the deadline ends it
  bool is_deadly = false;      // the process is gone

  // Out of reach unless the fault is about it: an error then shows that its cause was noticed.
  Duration timeout() const;

  friend std::ostream& operator<<(std::ostream& stream, const NcclFault& fault) {
    return stream << fault.name;
  }
};

// Of three steps of two buckets each.
std::vector<NcclFault> NcclFaults();

// The name of a test of that fault with a release of NCCL, "2.17".
std::string NameOfTest(const NcclFault& fault, const std::string& version);

// All processes have failed, and each says why; `victim` is the one where it went wrong.
void ExpectAllSayWhy(const std::vector<NcclRankEnd>& ends,
                     const NcclFault& fault,
                     std::size_t victim);

}  // namespace lockstep::runtime

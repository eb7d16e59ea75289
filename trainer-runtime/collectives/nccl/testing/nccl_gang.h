#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "trainer-runtime/collectives/nccl/nccl_reducer.h"
#include "trainer-runtime/collectives/reduce/gradient_reducer.h"
#include "trainer-runtime/collectives/testing_world.h"

// For tests only: ranks that are processes, each with the doubles of driver and NCCL.

namespace lockstep::runtime {

inline constexpr Duration kOutOfReach = std::chrono::minutes(15);  // above the test's own limit

// "cuLaunchHostFunc" of the driver's double: gives a device something to do.
using LaunchHostFunction = int (*)(void* stream, void (*function)(void*), void* data);

// The doubles' files. `version` is that of a release: "2.28".
std::string FakeNcclFile(const std::string& version);
std::string FakeCudaFile();

// Both, for NCCL of that release.
NcclFiles FakeFiles(const std::string& version);

// What one process's communicators of the doubles stand on, with so many devices.
std::shared_ptr<NcclGround> MakeFakeGround(const std::string& version, int device_count = 1);

struct NcclGangOptions {
  int world_size = 3;                   // processes
  int device_count = 1;                 // of each
  std::vector<int> device_counts = {};  // of each rank, where they differ
  std::string version = "2.30";
  std::vector<std::string> versions = {};  // of each rank, where they differ
  std::string fault;                       // see fake_nccl_fault.h
  Backend control = Backend::kSharedMemory;
  std::size_t element_count = 0;
  std::vector<std::size_t> bucket_counts = {};
  Duration join_timeout = kOutOfReach;
  Duration loss_patience = std::chrono::milliseconds(300);
};

// How one rank ended.
struct NcclRankEnd {
  bool is_dead = false;  // by a signal
  int code = -1;         // of its error; -1: none
  std::string text;      // of its error, or what its body said
};

// Runs `body` on every rank, after all have joined. A rank whose joining or body fails leaves at
// once: to the others it is gone then.
using NcclRankBody = std::function<Result<std::string>(
    Communicator& control, GradientReducer& reducer, NcclGround& ground)>;
std::vector<NcclRankEnd> RunNcclGang(const NcclGangOptions& options, const NcclRankBody& body);

}  // namespace lockstep::runtime

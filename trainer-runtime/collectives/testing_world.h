#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/base/io/unique_fd.h"
#include "common/base/time.h"
#include "trainer-runtime/collectives/communicator/communicator.h"

// For tests only: worlds of ranks on this machine, as threads or as processes.

namespace lockstep::runtime {

// Hierarchical: rank 0 is alone on its host, the others are two by two on theirs.
enum class Backend { kSharedMemory, kTcp, kHierarchical };

// "SharedMemory", "Tcp", "Hierarchical": for names of tests.
std::string BackendText(Backend backend);

// links[i][j] and links[j][i] are the ends of one TCP connection over loopback.
using LinkMatrix = std::vector<std::vector<UniqueFd>>;
LinkMatrix MakeLinks(int world_size);

// Options of rank `rank`, whose links are moved out of `links`.
CommunicatorOptions OptionsOf(int rank, Backend backend, LinkMatrix& links);

// Far enough that only a hang reaches it.
Deadline Soon();

// Runs `body` for every rank on a thread of its own, each with its communicator; returns when all
// have. A communicator that cannot be made fails the test.
using RankBody = std::function<void(Communicator& communicator)>;
void RunThreads(int world_size, Backend backend, const RankBody& body);

// The same of ranks that lend each other so many bytes each, [own] of them this rank's.
using LenderBody = std::function<void(Communicator& communicator, std::span<std::byte> own)>;
void RunLenders(int world_size, Backend backend, std::size_t byte_count, const LenderBody& body);

// One process per rank, forked from this one. Kills and reaps what still runs at the end.
class ProcessWorld {
 public:
  // `body` runs in the child; its value is the exit code.
  using ChildBody = std::function<int(Communicator& communicator)>;

  ProcessWorld(int world_size, Backend backend, const ChildBody& body);
  ProcessWorld(const ProcessWorld&) = delete;
  ProcessWorld& operator=(const ProcessWorld&) = delete;
  ~ProcessWorld();

  void Signal(int rank, int signal) const;

  // Waits for the end of the rank. Returns its exit code, or minus the signal that ended it.
  int Wait(int rank);

 private:
  std::vector<pid_t> pids_;  // 0: reaped
};

}  // namespace lockstep::runtime

// divergence_main RANKS shared-memory|tcp ROUNDS: how soon every rank learns that one of them has
// called something else. Prints p50, p99 and maximum over ranks and rounds, in milliseconds.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include "common/base/check.h"
#include "common/base/time.h"
#include "tests/bench/allreduce/world.h"

namespace lockstep::bench {
namespace {

// The bar of the table: named within so long.
constexpr double kBarMilliseconds = 100;
constexpr std::size_t kCount = 1024;

// Every rank's time of one round, shared by the processes.
double* SharedTimes(int world_size) {
  const std::size_t size = sizeof(double) * static_cast<std::size_t>(world_size);
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  LOCKSTEP_CHECK(memory != MAP_FAILED, "mmap");
  return static_cast<double*>(memory);
}

// One rank's call; rank `odd_rank` asks for one number more. Returns milliseconds, or a negative
// number when the outcome is not the error that names two ranks.
double MeasureRank(runtime::CommunicatorOptions options, int odd_rank) {
  const int rank = options.rank;
  const Deadline deadline = Deadline::After(SteadyNow(), std::chrono::minutes(1));
  auto communicator = runtime::MakeCommunicator(std::move(options), deadline);
  if (!communicator.ok() || !(*communicator)->Barrier(deadline).ok()) {
    return -1;
  }
  std::vector<float> data(kCount + 1);
  const TimePoint begin = SteadyNow();
  const Status status = (*communicator)
                            ->AllReduce(data.data(),
                                        kCount + (rank == odd_rank ? 1 : 0),
                                        runtime::DataType::kFloat32,
                                        runtime::ReduceOp::kSum,
                                        deadline);
  const double milliseconds = 1e3 * ToSeconds(SteadyNow() - begin);
  const bool is_named = !status.ok() && status.error().code() == ErrorCode::kMismatch;
  return is_named ? milliseconds : -1;
}

int Main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s RANKS shared-memory|tcp ROUNDS\n", argv[0]);
    return 2;
  }
  const int world_size = std::atoi(argv[1]);
  const bool allow_shared_memory = std::strcmp(argv[2], "shared-memory") == 0;
  double* const round_times = SharedTimes(world_size);
  std::vector<double> times;
  for (int round = 0; round < std::atoi(argv[3]); ++round) {
    runtime::CommunicatorOptions options = ForkWorld(world_size, allow_shared_memory);
    const int rank = options.rank;
    round_times[rank] = MeasureRank(std::move(options), round % world_size);
    if (rank != 0) {
      ::_exit(0);
    }
    if (AwaitOthers(world_size) != 0) {
      return 1;
    }
    times.insert(times.end(), round_times, round_times + world_size);
  }
  std::sort(times.begin(), times.end());
  if (times.empty() || times.front() < 0) {
    std::fputs("a rank did not get the error that names two ranks\n", stderr);
    return 1;
  }
  std::printf("%d ranks, %s: p50 %.3f ms, p99 %.3f ms, max %.3f ms; bar %.0f ms\n",
              world_size,
              argv[2],
              times[times.size() / 2],
              times[times.size() * 99 / 100],
              times.back(),
              kBarMilliseconds);
  return times.back() <= kBarMilliseconds ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  return lockstep::bench::Main(argc, argv);
}

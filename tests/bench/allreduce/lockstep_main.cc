// lockstep_main RANKS lent|staged|tcp|hierarchical BYTES:ITERATIONS...: our all-reduce between
// processes. lent: shared memory, of numbers that lie in memory lent to the other ranks, as the
// trainer's gradients do. staged: shared memory, of numbers elsewhere, as other people's programs
// have them. hierarchical: of lent numbers, as if half of the ranks were on another host.

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "tests/bench/allreduce/measure.h"
#include "tests/bench/allreduce/world.h"
#include "trainer-runtime/collectives/communicator/communicator.h"
#include "trainer-runtime/collectives/shared_memory/shared_segment.h"

namespace lockstep::bench {
namespace {

using runtime::Communicator;
using runtime::CommunicatorOptions;

Deadline InAMinute() {
  return Deadline::After(SteadyNow(), std::chrono::minutes(1));
}

int RunRank(CommunicatorOptions options, bool lends, const std::vector<Size>& sizes) {
  const int rank = options.rank;
  const int world_size = options.world_size;
  const auto memory = runtime::SharedSegment::CreateForReaders(LargestOf(sizes));
  if (!memory.ok()) {
    std::fprintf(stderr, "%s\n", memory.error().ToString().c_str());
    return 1;
  }
  options.lent = lends ? &*memory : nullptr;
  auto communicator = runtime::MakeCommunicator(std::move(options), InAMinute());
  if (!communicator.ok()) {
    std::fprintf(stderr, "%s\n", communicator.error().ToString().c_str());
    return 1;
  }
  if (lends && (*communicator)->Detail().find("gradients in shared memory") == std::string::npos) {
    std::fprintf(stderr, "rank %d: the ranks do not lend each other memory\n", rank);
    return 1;
  }
  const auto sum = [&](float* data, std::size_t count) {
    const Status status =
        (*communicator)
            ->AllReduce(
                data, count, runtime::DataType::kFloat32, runtime::ReduceOp::kSum, InAMinute());
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.error().ToString().c_str());
    }
    return status.ok();
  };
  float* const lent = reinterpret_cast<float*>(memory->data());
  return MeasureAll(sizes, world_size, rank == 0, sum, lends ? lent : nullptr);
}

int Main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s RANKS BACKEND BYTES:ITERATIONS...\n", argv[0]);
    return 2;
  }
  const int world_size = std::atoi(argv[1]);
  const std::string backend = argv[2];
  const bool lends = backend == "lent" || backend == "hierarchical";
  if (!lends && backend != "staged" && backend != "tcp") {
    std::fprintf(stderr, "%s: lent, staged, tcp or hierarchical expected\n", backend.c_str());
    return 2;
  }
  CommunicatorOptions options = ForkWorld(world_size, backend != "tcp");
  for (std::size_t i = 0; i < options.host_ids.size() / 2 && backend == "hierarchical"; ++i) {
    options.host_ids[i] = "another-host";
  }
  const int rank = options.rank;
  int code = RunRank(std::move(options), lends, ParseSizes(argc, argv, 3));
  if (rank == 0) {
    const int others = AwaitOthers(world_size);
    code = code != 0 ? code : others;
  }
  return code;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  return lockstep::bench::Main(argc, argv);
}

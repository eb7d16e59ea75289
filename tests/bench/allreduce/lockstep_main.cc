// lockstep_main RANKS shared-memory|tcp|hierarchical BYTES:ITERATIONS...: our all-reduce between
// processes; hierarchical as if half of them were on another host.

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "tests/bench/allreduce/measure.h"
#include "tests/bench/allreduce/world.h"
#include "trainer-runtime/collectives/communicator.h"

namespace lockstep::bench {
namespace {

using runtime::Communicator;
using runtime::CommunicatorOptions;

Deadline InAMinute() {
  return Deadline::After(SteadyNow(), std::chrono::minutes(1));
}

int RunRank(CommunicatorOptions options, const std::vector<Size>& sizes) {
  const int rank = options.rank;
  const int world_size = options.world_size;
  auto communicator = runtime::MakeCommunicator(std::move(options), InAMinute());
  if (!communicator.ok()) {
    std::fprintf(stderr, "%s\n", communicator.error().ToString().c_str());
    return 1;
  }
  return MeasureAll(sizes, world_size, rank == 0, [&](float* data, std::size_t count) {
    const Status status =
        (*communicator)
            ->AllReduce(
                data, count, runtime::DataType::kFloat32, runtime::ReduceOp::kSum, InAMinute());
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.error().ToString().c_str());
    }
    return status.ok();
  });
}

int Main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s RANKS BACKEND BYTES:ITERATIONS...\n", argv[0]);
    return 2;
  }
  const int world_size = std::atoi(argv[1]);
  const std::string backend = argv[2];
  CommunicatorOptions options = ForkWorld(world_size, backend != "tcp");
  for (std::size_t i = 0; i < options.host_ids.size() / 2 && backend == "hierarchical"; ++i) {
    options.host_ids[i] = "another-host";
  }
  const int rank = options.rank;
  int code = RunRank(std::move(options), ParseSizes(argc, argv, 3));
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

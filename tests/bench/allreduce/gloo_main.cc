// gloo_main RANKS FOLDER BYTES:ITERATIONS...: Gloo's ring all-reduce over TCP on loopback. FOLDER
// is an empty folder through which the ranks find each other.

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>

#include "tests/bench/allreduce/measure.h"

namespace lockstep::bench {
namespace {

int RunRank(int rank, int world_size, const char* folder, const std::vector<Size>& sizes) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, world_size);
  context->connectFullMesh(store, device);
  return MeasureAll(sizes, world_size, rank == 0, [&](float* data, std::size_t count) {
    gloo::AllreduceOptions options(context);
    options.setOutput(data, count);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
    return true;
  });
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s RANKS FOLDER BYTES:ITERATIONS...\n", argv[0]);
    return 2;
  }
  const int world_size = std::atoi(argv[1]);
  int rank = 0;
  for (int child = 1; child < world_size; ++child) {
    if (::fork() == 0) {
      rank = child;
      break;
    }
  }
  const auto sizes = lockstep::bench::ParseSizes(argc, argv, 3);
  const int code = lockstep::bench::RunRank(rank, world_size, argv[2], sizes);
  while (rank == 0 && ::wait(nullptr) > 0) {
  }
  return code;
}

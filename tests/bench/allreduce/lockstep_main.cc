// lockstep_main RANKS shared-memory|tcp BYTES:ITERATIONS...: our all-reduce between processes.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include <utility>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/base/time.h"
#include "tests/bench/allreduce/measure.h"
#include "trainer-runtime/collectives/communicator.h"

namespace lockstep::bench {
namespace {

using runtime::Communicator;
using runtime::CommunicatorOptions;

Deadline InAMinute() {
  return Deadline::After(SteadyNow(), std::chrono::minutes(1));
}

std::vector<std::vector<UniqueFd>> Connect(int world_size) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  LOCKSTEP_CHECK(::bind(listener.get(), generic, size) == 0, "bind");
  LOCKSTEP_CHECK(::listen(listener.get(), SOMAXCONN) == 0, "listen");
  LOCKSTEP_CHECK(::getsockname(listener.get(), generic, &size) == 0, "getsockname");
  const auto world = static_cast<std::size_t>(world_size);
  std::vector<std::vector<UniqueFd>> links(world);
  for (auto& row : links) {
    row.resize(world);
  }
  for (std::size_t i = 0; i < world; ++i) {
    for (std::size_t j = i + 1; j < world; ++j) {
      links[i][j] = UniqueFd(::socket(AF_INET, SOCK_STREAM, 0));
      LOCKSTEP_CHECK(::connect(links[i][j].get(), generic, size) == 0, "connect");
      links[j][i] = UniqueFd(::accept(listener.get(), nullptr, nullptr));
    }
  }
  return links;
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
    std::fprintf(stderr, "usage: %s RANKS shared-memory|tcp BYTES:ITERATIONS...\n", argv[0]);
    return 2;
  }
  const int world_size = std::atoi(argv[1]);
  auto links = Connect(world_size);
  int rank = 0;
  for (int child = 1; child < world_size; ++child) {
    if (::fork() == 0) {
      rank = child;
      break;
    }
  }
  CommunicatorOptions options;
  options.rank = rank;
  options.world_size = world_size;
  options.links = std::move(links[static_cast<std::size_t>(rank)]);
  options.host_ids.resize(static_cast<std::size_t>(world_size), "this-host");
  options.allow_shared_memory = std::strcmp(argv[2], "shared-memory") == 0;
  links.clear();
  int code = RunRank(std::move(options), ParseSizes(argc, argv, 3));
  for (int child = 1; rank == 0 && child < world_size; ++child) {
    int status = 0;
    ::wait(&status);
    code = code != 0 ? code : WEXITSTATUS(status);
  }
  return code;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  return lockstep::bench::Main(argc, argv);
}

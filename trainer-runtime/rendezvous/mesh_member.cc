// One rank of a mesh as a process of its own, for mesh_process_test: meets, and meets again after
// each loss. Says what happens in lines on standard output:
//   met EPOCH MICROSECONDS    from the call of Meet
//   lost RANK REASON
//   stale | failed MESSAGE    and ends

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <semaphore>
#include <string>
#include <utility>
#include <vector>

#include "trainer-runtime/rendezvous/mesh.h"

namespace lockstep::runtime {
namespace {

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// Arguments: rank, incarnation, epoch, then the address of every rank.
MeshOptions ParseArguments(const std::vector<std::string>& arguments) {
  MeshOptions options;
  options.addresses.assign(arguments.begin() + 3, arguments.end());
  options.identity.job_uid = "process-test";
  options.identity.rank = std::atoi(arguments[0].c_str());
  options.identity.incarnation = Incarnation(std::atoll(arguments[1].c_str()));
  options.identity.world_size = static_cast<int>(options.addresses.size());
  options.initial_epoch = Epoch(std::atoll(arguments[2].c_str()));
  options.job_key = "key";
  const std::string& own = options.addresses[static_cast<std::size_t>(options.identity.rank)];
  options.bind_address = own.substr(0, own.find(':'));
  options.port = std::atoi(own.substr(own.find(':') + 1).c_str());
  return options;
}

int Run(const std::vector<std::string>& arguments) {
  const auto logger = MakeNullLogger();
  std::counting_semaphore<> losses(0);
  MeshOptions options = ParseArguments(arguments);
  options.logger = logger.get();
  options.on_peer_lost = [&losses](const PeerLoss& loss) {
    Say("lost " + std::to_string(loss.rank) + " " + LossReasonName(loss.reason));
    losses.release();
  };
  Result<std::unique_ptr<Mesh>> mesh = Mesh::Start(std::move(options));
  if (!mesh.ok()) {
    Say("failed " + mesh.error().ToString());
    return 1;
  }
  while (true) {
    const TimePoint begin = SteadyNow();
    const Deadline deadline = Deadline::After(begin, std::chrono::minutes(1));
    const Result<Meeting> meeting = (*mesh)->Meet(SelfFacts{}, Epoch(0), deadline, {});
    if (!meeting.ok()) {
      const bool is_stale = meeting.error().code() == ErrorCode::kStale;
      Say(is_stale ? "stale" : "failed " + meeting.error().ToString());
      return 1;
    }
    const auto took =
        std::chrono::duration_cast<std::chrono::microseconds>(SteadyNow() - begin).count();
    Say("met " + std::to_string(meeting->epoch.value()) + " " + std::to_string(took));
    losses.acquire();
  }
}

}  // namespace
}  // namespace lockstep::runtime

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 4) {
    std::fprintf(stderr, "usage: mesh_member RANK INCARNATION EPOCH ADDRESS...\n");
    return 2;
  }
  return lockstep::runtime::Run(arguments);
}

#include "operator/scheduler/testing/fake_gangs.h"

#include "operator/scheduler/state/state_event.h"
#include "operator/scheduler/testing/fake_nodes.h"

namespace lockstep::control {

WallTime AtSecond(int64_t seconds) {
  return WallTime(std::chrono::seconds(1'800'000'000 + seconds));
}

GangRequest GpuGang(const std::string& name, int count, int64_t gpus, int64_t since_second) {
  GangRequest request;
  request.name = "default/" + name;
  request.gang.classes = {MakeClass("w", count, {0, 0, gpus, {}})};
  request.since = AtSecond(since_second);
  return request;
}

GangRequest Limited(GangRequest request, int64_t seconds) {
  request.run_time_max = std::chrono::seconds(seconds);
  return request;
}

std::map<std::string, int64_t> OfGpus(int64_t count) {
  return {{"nvidia.com/gpu", count}};
}

SnapshotNode GpuNode(const std::string& name, int64_t gpus, const std::string& rack) {
  SnapshotNode node = MakeNode(name, {0, 0, gpus, {}});
  if (!rack.empty()) {
    node.labels["rack"] = rack;
  }
  return node;
}

std::string FakeCluster::Step() {
  const RoundResult result = Round(&state, now, &memory, options);
  if (StateRecorder* const recorder = state.recorder()) {
    recorder->OnRound(now, options, result);
  }
  Commit(result, now, &state);
  return ToText(result);
}

void AddRunning(const std::string& name,
                int64_t gpus,
                int64_t stops_at,
                FakeCluster* cluster,
                const std::string& node) {
  RunTerms run;
  run.stops_at = stops_at == 0 ? WallTime{} : AtSecond(stops_at);
  cluster->state.SetRunning(GpuGang(name, 1, gpus, 0), {{"w-0", node}}, run);
}

}  // namespace lockstep::control

#include "operator/replay/openb_replay.h"

#include <algorithm>
#include <map>

#include "common/base/check.h"
#include "common/base/prng.h"

namespace lockstep::control {
namespace {

constexpr int64_t kMebibyte = 1024 * 1024;
// Far above anything real; sums of them still fit.
constexpr int64_t kCpuMilliMax = 100'000'000;
constexpr int64_t kMemoryMebibytesMax = int64_t{1} << 32U;
constexpr int64_t kDevicesMax = 1'024;

Result<ResourceVector> ReadAmounts(const CsvTable& table, std::size_t row) {
  ResourceVector amounts;
  LOCKSTEP_ASSIGN_OR_RETURN(amounts.cpu_milli, table.Int(row, "cpu_milli", 0, kCpuMilliMax));
  LOCKSTEP_ASSIGN_OR_RETURN(const int64_t memory_mebibytes,
                            table.Int(row, "memory_mib", 0, kMemoryMebibytesMax));
  amounts.memory_bytes = memory_mebibytes * kMebibyte;
  return amounts;
}

// "V100M16|V100M32", in name order.
std::vector<std::string> ReadModels(std::string text) {
  std::vector<std::string> models;
  while (!text.empty()) {
    const std::size_t bar = text.find('|');
    if (bar != 0) {
      models.push_back(text.substr(0, bar));
    }
    text.erase(0, bar == std::string::npos ? bar : bar + 1);
  }
  std::sort(models.begin(), models.end());
  return models;
}

Result<PackRequest> ReadPod(const CsvTable& pods, std::size_t row) {
  PackRequest request;
  LOCKSTEP_ASSIGN_OR_RETURN(request.amounts, ReadAmounts(pods, row));
  LOCKSTEP_ASSIGN_OR_RETURN(request.device_count, pods.Int(row, "num_gpu", 0, kDevicesMax));
  if (request.device_count == 0) {
    return request;
  }
  // Several GPUs are whole ones, and the column says so.
  const int64_t milli_min = request.device_count == 1 ? 1 : kDeviceMilli;
  LOCKSTEP_ASSIGN_OR_RETURN(request.device_milli,
                            pods.Int(row, "gpu_milli", milli_min, kDeviceMilli));
  request.models = ReadModels(pods.Text(row, "gpu_spec"));
  return request;
}

}  // namespace

Result<OpenbTrace> OpenbTrace::FromTables(const CsvTable& nodes, const CsvTable& pods) {
  OpenbTrace trace;
  std::map<std::string, std::size_t> row_by_name;
  for (std::size_t row = 0; row < nodes.row_count(); ++row) {
    PackRoom room;
    LOCKSTEP_ASSIGN_OR_RETURN(room.free, ReadAmounts(nodes, row));
    LOCKSTEP_ASSIGN_OR_RETURN(const int64_t devices, nodes.Int(row, "gpu", 0, kDevicesMax));
    room.device_milli_free.assign(static_cast<std::size_t>(devices), kDeviceMilli);
    room.model = nodes.Text(row, "model");
    const std::string name = nodes.Text(row, "sn");
    if (name.empty() || !row_by_name.try_emplace(name, row).second) {
      return nodes.Wrong(row, "sn", "a name that no other node has");
    }
    trace.device_milli_total += devices * kDeviceMilli;
    trace.nodes.emplace_back(name, std::move(room));
  }
  bool asks_for_devices = false;
  for (std::size_t row = 0; row < pods.row_count(); ++row) {
    LOCKSTEP_ASSIGN_OR_RETURN(PackRequest request, ReadPod(pods, row));
    asks_for_devices = asks_for_devices || request.device_count > 0;
    trace.pods.push_back(std::move(request));
  }
  if (trace.device_milli_total == 0) {
    return nodes.Wrong(0, "gpu", "at least one node with a GPU");
  }
  if (!asks_for_devices) {
    return pods.Wrong(0, "num_gpu", "at least one pod with a GPU");
  }
  return trace;
}

OpenbRun ReplayOpenb(const OpenbTrace& trace, uint64_t seed, double tune, PlacementPolicy* policy) {
  Prng prng(seed);
  int64_t asked_milli = 0;
  std::vector<const PackRequest*> pods;
  const auto add = [&](const PackRequest& pod) {
    pods.push_back(&pod);
    asked_milli += pod.device_milli_total();
  };
  std::for_each(trace.pods.begin(), trace.pods.end(), add);
  while (static_cast<double>(asked_milli) < tune * static_cast<double>(trace.device_milli_total)) {
    add(trace.pods[prng.Below(trace.pods.size())]);
  }
  for (std::size_t i = pods.size(); i > 1; --i) {
    std::swap(pods[i - 1], pods[prng.Below(i)]);
  }

  std::map<std::string, PackRoom> rooms(trace.nodes.begin(), trace.nodes.end());
  for (const auto& [name, room] : rooms) {
    policy->SetNode(name, room);
  }
  OpenbRun run{seed, static_cast<int64_t>(pods.size()), 0, 0};
  for (const PackRequest* pod : pods) {
    const auto choice = policy->Choose(*pod);
    if (!choice) {
      ++run.failed_count;
      continue;
    }
    PackRoom& room = rooms.at(choice->node);
    // The ledger of this place is its own: a policy cannot give away what is not there.
    LOCKSTEP_CHECK(FitsRoom(room, *pod), choice->node + " has no room for the pod");
    LOCKSTEP_CHECK(room.device_milli_total() - choice->room_after.device_milli_total() ==
                       pod->device_milli_total(),
                   "the policy takes more or less GPU from the node than the pod requests");
    LOCKSTEP_CHECK(
        Left(room.free, pod->amounts) == choice->room_after.free,
        "the policy takes more or less CPU or memory from the node than the pod requests");
    room = choice->room_after;
    policy->SetNode(choice->node, room);
    run.allocated_milli += pod->device_milli_total();
  }
  return run;
}

}  // namespace lockstep::control

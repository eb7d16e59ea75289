#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "operator/kubeclient/kube/decode.h"
#include "operator/kubeclient/kube/json_stream.h"
#include "operator/kubeclient/kube/watch_event.h"
#include "tests/fuzz/decoder_lists.h"

namespace lockstep::fuzz {
namespace {

namespace kube = control::kube;

// What a stream gave: its pieces, and how it ended.
struct StreamOutcome {
  std::vector<std::string> pieces;
  bool is_whole = false;
  std::string end;

  friend bool operator==(const StreamOutcome&, const StreamOutcome&) = default;
};

using Chunks = std::vector<std::string_view>;

// The bytes whole, in two, and one by one must give the same.
template <typename Run>
Finding CheckCuts(std::string_view bytes, const Run& run) {
  const StreamOutcome whole = run(Chunks{bytes});
  Chunks single;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    single.push_back(bytes.substr(i, 1));
  }
  const std::size_t middle = bytes.size() / 2;
  for (const Chunks& chunks : {Chunks{bytes.substr(0, middle), bytes.substr(middle)}, single}) {
    if (!(run(chunks) == whole)) {
      return {whole.is_whole, "cut differently, the bytes mean something else"};
    }
  }
  return {whole.is_whole, whole.end.empty() ? "an end without a word" : ""};
}

Finding RunList(std::string_view bytes) {
  return CheckCuts(bytes, [](const Chunks& chunks) {
    StreamOutcome outcome;
    kube::ListSplitter splitter;
    for (const std::string_view chunk : chunks) {
      const Status fed =
          splitter.Feed(chunk, [&](std::string_view item) { outcome.pieces.emplace_back(item); });
      if (!fed.ok()) {
        outcome.end = fed.error().ToString();
        return outcome;
      }
    }
    const Result<kube::ListHead> head = splitter.Finish();
    outcome.is_whole = head.ok();
    outcome.end =
        head.ok() ? "at " + head->resource_version + head->continue_token : head.error().ToString();
    return outcome;
  });
}

std::vector<std::string> ListSeeds() {
  return {R"({"kind":"PodList","metadata":{"resourceVersion":"17","continue":"a"},"items":[)"
          R"({"metadata":{"name":"a"},"x":"}]\""}, {"y":[{},[]]}]})",
          R"({"items":null,"metadata":{"resourceVersion":"1"}})"};
}

// Each line of the stream, read as an event.
Finding RunWatch(std::string_view bytes) {
  return CheckCuts(bytes, [](const Chunks& chunks) {
    StreamOutcome outcome;
    outcome.end = "end";
    kube::LineFramer framer;
    for (const std::string_view chunk : chunks) {
      const Status fed = framer.Feed(chunk, [&](std::string_view line) {
        const Result<kube::WatchEvent> event = kube::ParseWatchEvent(line);
        outcome.is_whole = event.ok();
        outcome.pieces.push_back(event.ok() ? event->object : event.error().ToString());
        return event.ok();
      });
      if (!fed.ok()) {
        outcome.end = fed.error().ToString();
        return outcome;
      }
      if (!outcome.pieces.empty() && !outcome.is_whole) {
        return outcome;
      }
    }
    return outcome;
  });
}

std::vector<std::string> WatchSeeds() {
  return {
      "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n"
      "{\"object\":{\"a\":\"}\\\"\"},\"type\":\"BOOKMARK\"}\r\n"};
}

template <typename T>
Finding RunObject(Result<kube::Item<T>> (*decode)(std::string_view), std::string_view bytes) {
  const Result<kube::Item<T>> item = decode(bytes);
  if (!item.ok()) {
    return {false, item.error().ToString().empty() ? "an error without a message" : ""};
  }
  const bool is_named = !item->key.name.empty() && item->object != nullptr;
  return {true, is_named ? "" : "an object without a name"};
}

Finding RunPod(std::string_view bytes) {
  return RunObject(kube::DecodePod, bytes);
}

std::vector<std::string> PodSeeds() {
  return {R"({"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","labels":)"
          R"({"lockstep.dev/job":"j"},"ownerReferences":[{"uid":"o","controller":true}]},)"
          R"("spec":{"nodeName":"n1","containers":[{"name":"trainer","resources":{"requests":)"
          R"({"cpu":"1500m","memory":"2Gi","nvidia.com/gpu":"2"}}}],"initContainers":[{"name":)"
          R"("i","restartPolicy":"Always"}],"overhead":{"cpu":"10m"},"affinity":{"nodeAffinity":)"
          R"({"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{)"
          R"("matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]}}}},)"
          R"("status":{"phase":"Failed","conditions":[{"type":"PodScheduled","status":"False",)"
          R"("message":"m"}],"containerStatuses":[{"name":"trainer","state":{"terminated":)"
          R"({"exitCode":137,"signal":9,"reason":"Error","message":"\u20ac"}}}]}})"};
}

Finding RunNode(std::string_view bytes) {
  return RunObject(kube::DecodeNode, bytes);
}

std::vector<std::string> NodeSeeds() {
  return {R"({"metadata":{"name":"n"},"spec":{"unschedulable":false,"taints":[{"key":"k",)"
          R"("effect":"NoSchedule"}]},"status":{"allocatable":{"cpu":"8","pods":"110"},)"
          R"("conditions":[{"type":"Ready","status":"True"}]}})"};
}

Finding RunService(std::string_view bytes) {
  return RunObject(kube::DecodeService, bytes);
}

std::vector<std::string> ServiceSeeds() {
  return {R"({"metadata":{"name":"s"},"spec":{"clusterIP":"None","publishNotReadyAddresses":)"
          R"(true,"selector":{"a":"b"}}})"};
}

Finding RunApiStatus(std::string_view bytes) {
  return {kube::DecodeApiStatus(bytes).code != 0, ""};
}

std::vector<std::string> ApiStatusSeeds() {
  return {R"({"kind":"Status","message":"m","reason":"Timeout","code":504,"details":)"
          R"({"retryAfterSeconds":1,"causes":[{"reason":"ResourceVersionTooLarge"}]}})"};
}

constexpr std::array<Decoder, 6> kKubeDecoders = {{
    {"kube_list", RunList, ListSeeds},
    {"kube_watch", RunWatch, WatchSeeds},
    {"kube_pod", RunPod, PodSeeds},
    {"kube_node", RunNode, NodeSeeds},
    {"kube_service", RunService, ServiceSeeds},
    {"kube_status", RunApiStatus, ApiStatusSeeds},
}};

}  // namespace

std::span<const Decoder> KubeDecoders() {
  return kKubeDecoders;
}

}  // namespace lockstep::fuzz

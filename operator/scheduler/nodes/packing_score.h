#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "operator/resources/resource_vector.h"

namespace lockstep::control {

// A whole GPU, in thousandths.
inline constexpr int64_t kDeviceMilli = 1000;

// What one pod asks of a node. `amounts` counts no GPUs: those are `device_count` devices, each
// whole; or one, of which it takes `device_milli` thousandths beside others.
struct PackRequest {
  ResourceVector amounts;
  int64_t device_count = 0;
  int64_t device_milli = kDeviceMilli;
  std::vector<std::string> models{};  // of GPUs that will do, by name; empty: every model

  // In thousandths of a GPU.
  int64_t device_milli_total() const { return device_count * device_milli; }

  friend auto operator<=>(const PackRequest&, const PackRequest&) = default;
};

// What one node has left; `free` counts no GPUs. Which device has how much does not matter, so they
// stand in rising order.
struct PackRoom {
  std::string model;  // of its GPUs
  std::vector<int64_t> device_milli_free{};
  ResourceVector free;

  int64_t device_milli_total() const;

  friend auto operator<=>(const PackRoom&, const PackRoom&) = default;
};

bool FitsRoom(const PackRoom& room, const PackRequest& request);

// The room without what the request takes; a part of a device is taken from one that has
// `device_milli_free` left. Precondition (checked): it fits.
PackRoom RoomAfter(const PackRoom& room, const PackRequest& request, int64_t device_milli_free);

// The best way to place a pod in one room.
struct PackFit {
  int64_t loss = 0;               // how much of the room's worth goes
  int64_t use_loss = 0;           // and of its use to single pods
  int64_t device_milli_free = 0;  // of the device of which a part is taken
};

// Says what a room is worth to the pods that are still to come, judged by those that came so far.
//
// Words: *demand* is how often each kind of GPU pod has come; a *stream* is a row of such pods
// drawn from the demand; a room's *worth* is how much of its GPUs the streams come to use, when
// each pod of a stream is put into the room if it still fits. A GPU that nobody can use, because
// cores, memory or the rest of the device are gone, or because nobody asks for its model, is worth
// nothing, however free it is. So the best place for a pod is where the worth falls least.
//
// It goes further than the fragmentation gradient (Weng et al., "Beware of Fragmentation", ATC
// 2023), which asks whether one more pod fits, and so sees that cores run out only when they have:
// here a room is filled to the end. That gradient decides between equals: what is of *use* to many
// kinds of pods, a whole node or a rare model, is kept for those that can go nowhere else. Pods
// without GPUs are no part of the demand: that they find room does not make a GPU useful.
//
// Determinism: the streams are drawn with a fixed seed; equal observations give equal answers.
// Bounds: `shapes_max` kinds of pods are remembered, and as many rooms as `rooms_max`; old demand
// counts half after every `halving_count` pods.
class PackingScore {
 public:
  // Choices: measured on five traces, to which none of these is sensitive
  // (docs/contributing/replay.md).
  struct Options {
    int64_t stream_count = 32;
    int64_t stream_pods = 100;
    int64_t halving_count = 65'536;
    std::size_t shapes_max = 4'096;
    std::size_t rooms_max = 262'144;
  };

  explicit PackingScore(const Options& options);

  PackingScore() : PackingScore(Options{}) {}

  // A pod has come, wherever it went.
  void Observe(const PackRequest& request);

  // Units: thousandths of a GPU, summed over the streams.
  int64_t Worth(const PackRoom& room);

  // How much of the room's GPUs single pods could use, each kind by itself as often as it came.
  // Units: thousandths of a GPU times thousandths of the demand.
  int64_t Use(const PackRoom& room);

  // Empty where the pod does not fit. A part of a GPU is taken from the device where least is lost,
  // in steps and then in use; of equals from the fullest.
  std::optional<PackFit> BestFit(const PackRoom& room, const PackRequest& request);

  // The same as `loss` in steps of so much that smaller differences are chance: those who compare
  // rooms compare steps, and fill the first room before the next is opened.
  int64_t LossSteps(int64_t loss) const;

  // Whether less is lost by `a`: in steps, else in use.
  bool IsBetter(const PackFit& a, const PackFit& b) const;

  // Kinds of pods that are remembered.
  std::size_t kind_count() const { return demand_.size(); }

  // Another number whenever what was answered before may be answered otherwise.
  uint64_t version() const { return version_; }

 private:
  // A kind of pod as the streams need it: amounts in the order of `names_`.
  struct StreamPod {
    std::vector<int64_t> amounts;
    int64_t device_count = 0;
    int64_t device_milli = 0;
    int64_t share_milli = 0;                           // of the demand
    const std::vector<std::string>* models = nullptr;  // in demand_
  };

  struct RoomHash {
    std::size_t operator()(const PackRoom& room) const;
  };

  // What a room is to the demand.
  struct RoomValue {
    int64_t worth = 0;
    int64_t use = 0;
  };

  void Forget();
  void ListKinds();
  void DrawStreams();
  const RoomValue& ValueOf(const PackRoom& room);
  RoomValue WorkOut(const PackRoom& room) const;
  int64_t FillByStreams(const PackRoom& room,
                        const std::vector<int64_t>& amounts,
                        const std::vector<bool>& is_possible) const;

  Options options_;
  std::map<PackRequest, int64_t> demand_;
  int64_t demand_total_ = 0;
  int64_t observed_ = 0;
  int64_t draw_at_ = 1;  // when that many have been observed, streams are drawn anew
  uint64_t version_ = 0;
  std::vector<std::string> names_;  // of resources beside GPUs that the demand asks for
  std::vector<StreamPod> pods_;
  std::vector<std::vector<std::size_t>> streams_;             // indices of pods_
  std::unordered_map<PackRoom, RoomValue, RoomHash> values_;  // looked up, never walked
};

}  // namespace lockstep::control

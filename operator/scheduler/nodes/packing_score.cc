#include "operator/scheduler/nodes/packing_score.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "common/base/check.h"
#include "common/base/prng.h"

namespace lockstep::control {
namespace {

// Choice: any will do; the same one makes the same decisions.
constexpr uint64_t kStreamSeed = 7;

// Choice: 1/20 of a GPU a stream. Below it the streams' own chance is larger than the difference.
constexpr int64_t kLossStepMilli = 50;

// Streams are drawn anew after 1, 2, 4, ... pods, and from here on after as many again. Choice:
// what was worked out for a room stays of use for a while, and the demand is still followed.
constexpr int64_t kRedrawCount = 1'024;

bool IsModelAsked(const std::vector<std::string>& models, const std::string& model) {
  return models.empty() || std::find(models.begin(), models.end(), model) != models.end();
}

// Whether the devices, in rising order, hold the request.
bool HasDevices(const std::vector<int64_t>& devices, int64_t count, int64_t milli) {
  return count == 0 || (static_cast<int64_t>(devices.size()) >= count &&
                        devices[devices.size() - static_cast<std::size_t>(count)] >= milli);
}

// Takes the request from devices in rising order, which stay so. A part comes from the device at
// `index`, whole ones from the end.
void TakeDevices(int64_t count, int64_t milli, std::size_t index, std::vector<int64_t>* devices) {
  if (milli < kDeviceMilli) {
    const int64_t left = (*devices)[index] - milli;
    for (; index > 0 && (*devices)[index - 1] > left; --index) {
      (*devices)[index] = (*devices)[index - 1];
    }
    (*devices)[index] = left;
    return;
  }
  const auto begin_taken = devices->end() - count;
  std::for_each(begin_taken, devices->end(), [milli](int64_t& free) { free -= milli; });
  std::rotate(devices->begin(), begin_taken, devices->end());
}

// The fullest device that has so much left.
std::size_t FullestWith(const std::vector<int64_t>& devices, int64_t milli) {
  return static_cast<std::size_t>(std::lower_bound(devices.begin(), devices.end(), milli) -
                                  devices.begin());
}

bool IsWithin(const std::vector<int64_t>& asked, const std::vector<int64_t>& free) {
  return std::equal(asked.begin(), asked.end(), free.begin(), std::less_equal<>());
}

bool IsPart(const PackRequest& request) {
  return request.device_count > 0 && request.device_milli < kDeviceMilli;
}

}  // namespace

int64_t PackRoom::device_milli_total() const {
  return std::accumulate(device_milli_free.begin(), device_milli_free.end(), int64_t{0});
}

bool FitsRoom(const PackRoom& room, const PackRequest& request) {
  return CountThatFits(room.free, request.amounts, 1) > 0 &&
         HasDevices(room.device_milli_free, request.device_count, request.device_milli) &&
         (request.device_count == 0 || IsModelAsked(request.models, room.model));
}

PackRoom RoomAfter(const PackRoom& room, const PackRequest& request, int64_t device_milli_free) {
  LOCKSTEP_CHECK(FitsRoom(room, request), "the pod does not fit the room");
  PackRoom after = room;
  after.free = Left(room.free, request.amounts);
  if (request.device_count == 0) {
    return after;
  }
  const std::size_t index = FullestWith(after.device_milli_free, device_milli_free);
  if (IsPart(request)) {
    LOCKSTEP_CHECK(request.device_count == 1, "a pod can use a part of one device only");
    LOCKSTEP_CHECK(device_milli_free >= request.device_milli, "the device has too little left");
    LOCKSTEP_CHECK(index < after.device_milli_free.size() &&
                       after.device_milli_free[index] == device_milli_free,
                   "no device has exactly this much left");
  }
  TakeDevices(request.device_count, request.device_milli, index, &after.device_milli_free);
  return after;
}

std::size_t PackingScore::RoomHash::operator()(const PackRoom& room) const {
  uint64_t hash = std::hash<std::string>()(room.model);
  const auto add = [&hash](int64_t value) { hash = Mix64(hash ^ static_cast<uint64_t>(value)); };
  add(room.free.cpu_milli);
  add(room.free.memory_bytes);
  for (const NamedAmount& other : room.free.others) {
    add(other.amount);
  }
  std::for_each(room.device_milli_free.begin(), room.device_milli_free.end(), add);
  return hash;
}

PackingScore::PackingScore(const Options& options) : options_(options) {
  LOCKSTEP_CHECK(options.stream_count > 0, "streams");
  LOCKSTEP_CHECK(options.stream_pods > 0, "a stream needs at least one pod");
}

void PackingScore::Observe(const PackRequest& request) {
  if (request.device_count == 0) {
    return;
  }
  ++observed_;
  ++demand_total_;
  ++demand_[request];
  if (demand_total_ >= options_.halving_count || demand_.size() > options_.shapes_max) {
    Forget();
  }
  if (observed_ >= draw_at_) {
    DrawStreams();
    draw_at_ += std::min(draw_at_, kRedrawCount);
  }
}

void PackingScore::Forget() {
  do {
    demand_total_ = 0;
    for (auto one = demand_.begin(); one != demand_.end();) {
      one->second /= 2;
      demand_total_ += one->second;
      one = one->second == 0 ? demand_.erase(one) : std::next(one);
    }
  } while (demand_.size() > options_.shapes_max);
  DrawStreams();
}

void PackingScore::ListKinds() {
  names_.clear();
  pods_.clear();
  std::map<std::string, std::size_t> index_by_name;
  for (const auto& [request, count] : demand_) {
    for (const NamedAmount& asked : request.amounts.All()) {
      index_by_name.try_emplace(asked.name, 0);
    }
  }
  for (auto& [name, index] : index_by_name) {
    index = names_.size();
    names_.push_back(name);
  }
  for (const auto& [request, count] : demand_) {
    StreamPod pod;
    pod.amounts.assign(names_.size(), 0);
    for (const NamedAmount& asked : request.amounts.All()) {
      pod.amounts[index_by_name.at(asked.name)] = asked.amount;
    }
    pod.device_count = request.device_count;
    pod.device_milli = request.device_milli;
    pod.share_milli = count * 1'000 / demand_total_;
    pod.models = &request.models;
    pods_.push_back(std::move(pod));
  }
}

void PackingScore::DrawStreams() {
  ++version_;
  values_.clear();
  streams_.clear();
  ListKinds();
  std::vector<int64_t> count_to;  // of pods of the kinds up to each
  int64_t total = 0;
  for (const auto& [request, count] : demand_) {
    count_to.push_back(total += count);
  }
  if (total == 0) {
    return;
  }
  Prng prng(kStreamSeed);
  streams_.resize(static_cast<std::size_t>(options_.stream_count));
  for (std::vector<std::size_t>& stream : streams_) {
    for (int64_t i = 0; i < options_.stream_pods; ++i) {
      const auto drawn = static_cast<int64_t>(prng.Below(static_cast<uint64_t>(total)));
      const auto kind = std::upper_bound(count_to.begin(), count_to.end(), drawn);
      stream.push_back(static_cast<std::size_t>(kind - count_to.begin()));
    }
  }
}

int64_t PackingScore::Worth(const PackRoom& room) {
  return ValueOf(room).worth;
}

int64_t PackingScore::Use(const PackRoom& room) {
  return ValueOf(room).use;
}

const PackingScore::RoomValue& PackingScore::ValueOf(const PackRoom& room) {
  if (const auto known = values_.find(room); known != values_.end()) {
    return known->second;
  }
  if (values_.size() >= options_.rooms_max) {
    values_.clear();
  }
  return values_.emplace(room, WorkOut(room)).first->second;
}

PackingScore::RoomValue PackingScore::WorkOut(const PackRoom& room) const {
  if (room.device_milli_total() == 0) {
    return {};
  }
  std::vector<int64_t> amounts;
  for (const std::string& name : names_) {
    amounts.push_back(room.free.AmountOf(name));
  }
  RoomValue value;
  std::vector<bool> is_possible;  // what of the demand could go here at all
  for (const StreamPod& pod : pods_) {
    is_possible.push_back(IsModelAsked(*pod.models, room.model) &&
                          HasDevices(room.device_milli_free, pod.device_count, pod.device_milli) &&
                          IsWithin(pod.amounts, amounts));
    if (is_possible.back()) {
      for (const int64_t free : room.device_milli_free) {
        value.use += free >= pod.device_milli ? free * pod.share_milli : 0;
      }
    }
  }
  value.worth = FillByStreams(room, amounts, is_possible);
  return value;
}

int64_t PackingScore::FillByStreams(const PackRoom& room,
                                    const std::vector<int64_t>& amounts,
                                    const std::vector<bool>& is_possible) const {
  const int64_t total = room.device_milli_total();
  int64_t worth = 0;
  std::vector<int64_t> left;
  std::vector<int64_t> devices;
  for (const std::vector<std::size_t>& stream : streams_) {
    left = amounts;
    devices = room.device_milli_free;
    int64_t used = 0;
    for (std::size_t i = 0; i < stream.size() && used < total; ++i) {
      const StreamPod& pod = pods_[stream[i]];
      if (!is_possible[stream[i]] || !HasDevices(devices, pod.device_count, pod.device_milli) ||
          !IsWithin(pod.amounts, left)) {
        continue;
      }
      std::transform(left.begin(), left.end(), pod.amounts.begin(), left.begin(), std::minus<>());
      TakeDevices(
          pod.device_count, pod.device_milli, FullestWith(devices, pod.device_milli), &devices);
      used += pod.device_count * pod.device_milli;
    }
    worth += used;
  }
  return worth;
}

bool PackingScore::IsBetter(const PackFit& a, const PackFit& b) const {
  const int64_t a_steps = LossSteps(a.loss);
  const int64_t b_steps = LossSteps(b.loss);
  return a_steps != b_steps ? a_steps < b_steps : a.use_loss < b.use_loss;
}

std::optional<PackFit> PackingScore::BestFit(const PackRoom& room, const PackRequest& request) {
  if (!FitsRoom(room, request)) {
    return std::nullopt;
  }
  const RoomValue before = ValueOf(room);
  std::optional<PackFit> best;
  int64_t last = -1;
  for (const int64_t free : IsPart(request) ? room.device_milli_free : std::vector<int64_t>{0}) {
    if ((IsPart(request) && free < request.device_milli) || free == last) {
      continue;
    }
    last = free;
    const RoomValue after = ValueOf(RoomAfter(room, request, free));
    const PackFit fit{before.worth - after.worth, before.use - after.use, free};
    if (!best || IsBetter(fit, *best)) {
      best = fit;
    }
  }
  return best;
}

int64_t PackingScore::LossSteps(int64_t loss) const {
  const int64_t step = kLossStepMilli * options_.stream_count;
  return loss > 0 ? (loss + step - 1) / step : -(-loss / step);
}

}  // namespace lockstep::control

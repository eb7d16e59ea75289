#include "operator/scheduler/refusal.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <string>

namespace lockstep::control {
namespace {

// One kind of amount, with its words. GPUs first: they are the scarcest and the most telling.
struct Amount {
  Constraint constraint;
  int64_t Resources::*value;
};

constexpr std::array<Amount, 3> kAmounts = {{{Constraint::kGpu, &Resources::gpu_count},
                                             {Constraint::kMemory, &Resources::memory_bytes},
                                             {Constraint::kCpu, &Resources::cpu_milli}}};

int64_t SaturatingMultiply(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

// At most two decimals, none that say nothing: 2, 2.5, 0.25.
std::string ShortDecimal(double value) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.2f", value);
  std::string text(buffer.data());
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') {
    text.pop_back();
  }
  return text;
}

std::string MemoryText(int64_t bytes) {
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  constexpr double kMiB = 1024.0 * 1024.0;
  if (bytes == 0) {
    return "0";
  }
  return static_cast<double>(bytes) >= kGiB
             ? ShortDecimal(static_cast<double>(bytes) / kGiB) + " GiB"
             : ShortDecimal(static_cast<double>(bytes) / kMiB) + " MiB";
}

std::string Plural(int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// The two sides of a comparison: "3 GPUs" and "0", "64 GiB memory" and "24 GiB".
struct Figures {
  std::string needed;
  std::string found;
};

Figures FiguresOf(Constraint constraint, int64_t needed, int64_t found) {
  switch (constraint) {
    case Constraint::kGpu:
      return {Plural(needed, "GPU"), std::to_string(found)};
    case Constraint::kMemory:
      // Rounding must not make a shortfall read as equality.
      if (MemoryText(needed) == MemoryText(found)) {
        return {Plural(needed, "byte") + " memory", Plural(found, "byte")};
      }
      return {MemoryText(needed) + " memory", MemoryText(found)};
    default:
      if (needed % 10 != 0 || found % 10 != 0) {  // not exact with two decimals
        return {std::to_string(needed) + "m CPU", std::to_string(found) + "m"};
      }
      return {ShortDecimal(static_cast<double>(needed) / 1000.0) + " CPU",
              ShortDecimal(static_cast<double>(found) / 1000.0)};
  }
}

std::string SelectorText(const PodClass& pod_class) {
  std::string text;
  for (const auto& [key, value] : pod_class.node_selector) {
    text += (text.empty() ? "" : ", ") + key + "=" + value;
  }
  return text;
}

std::optional<Unschedulable> BrokenSelector(const std::vector<PodClass>& classes,
                                            const std::vector<NodeRoom>& rooms,
                                            bool is_one_machine) {
  for (const PodClass& pod_class : classes) {
    const bool has_match = std::any_of(rooms.begin(), rooms.end(), [&](const NodeRoom& room) {
      return MatchesSelector(*room.node, pod_class);
    });
    if (!has_match) {
      return Unschedulable{
          Constraint::kNodeSelector,
          pod_class.name + " needs a node labelled " + SelectorText(pod_class) +
              (is_one_machine
                   ? ", this machine is not"
                   : ", none of " + Plural(static_cast<int64_t>(rooms.size()), "node") + " is")};
    }
  }
  return std::nullopt;
}

// One pod against the largest node, then against the freest one.
std::optional<Unschedulable> BrokenByOnePod(const PodClass& pod_class,
                                            const std::vector<NodeRoom>& rooms) {
  for (const Amount& amount : kAmounts) {
    int64_t largest = 0;
    int64_t freest = 0;
    for (const NodeRoom& room : rooms) {
      if (MatchesSelector(*room.node, pod_class)) {
        largest = std::max(largest, room.node->allocatable.*amount.value);
        freest = std::max(freest, room.free.*amount.value);
      }
    }
    const int64_t needed = pod_class.request.*amount.value;
    if (needed > largest) {
      const Figures figures = FiguresOf(amount.constraint, needed, largest);
      return Unschedulable{amount.constraint,
                           pod_class.name + " needs " + figures.needed +
                               ", the largest node offers " + figures.found};
    }
    if (needed > freest) {
      const Figures figures = FiguresOf(amount.constraint, needed, freest);
      return Unschedulable{
          amount.constraint,
          pod_class.name + " needs " + figures.needed + " on one node, at most " + figures.found +
              (freest == 1 && amount.constraint == Constraint::kGpu ? " is" : " are") + " free"};
    }
  }
  return std::nullopt;
}

std::string SumText(const Amount& amount,
                    int64_t needed,
                    const std::vector<NodeRoom>& rooms,
                    bool is_one_machine) {
  int64_t free = 0;
  int64_t allocatable = 0;
  int64_t node_count = 0;
  for (const NodeRoom& room : rooms) {
    free = SaturatingAdd(free, room.free.*amount.value);
    allocatable = SaturatingAdd(allocatable, room.node->allocatable.*amount.value);
    node_count += room.free.*amount.value > 0 ? 1 : 0;
  }
  if (is_one_machine && needed > allocatable) {
    const Figures figures = FiguresOf(amount.constraint, needed, allocatable);
    return "needs " + figures.needed + ", this machine has " + figures.found;
  }
  const Figures figures = FiguresOf(amount.constraint, needed, free);
  if (is_one_machine) {
    return "needs " + figures.needed + ", " + figures.found + " free on this machine";
  }
  const auto shown = node_count > 0 ? node_count : static_cast<int64_t>(rooms.size());
  return "needs " + figures.needed + ", " + figures.found + " free on " + Plural(shown, "node");
}

std::optional<Unschedulable> BrokenBySum(const std::vector<PodClass>& classes,
                                         const std::vector<NodeRoom>& rooms,
                                         bool is_one_machine) {
  for (const Amount& amount : kAmounts) {
    int64_t needed = 0;
    for (const PodClass& pod_class : classes) {
      needed = SaturatingAdd(needed,
                             SaturatingMultiply(pod_class.request.*amount.value,
                                                static_cast<int64_t>(pod_class.pods.size())));
    }
    int64_t free = 0;
    for (const NodeRoom& room : rooms) {
      free = SaturatingAdd(free, room.free.*amount.value);
    }
    if (needed > free) {
      return Unschedulable{amount.constraint, SumText(amount, needed, rooms, is_one_machine)};
    }
  }
  return std::nullopt;
}

int64_t RoomFor(const PodClass& pod_class, const std::vector<NodeRoom>& rooms) {
  const auto wanted = static_cast<int64_t>(pod_class.pods.size());
  int64_t count = 0;
  for (const NodeRoom& room : rooms) {
    count += PodsThatFit(room, pod_class, wanted);
  }
  return std::min(count, wanted);
}

// The kind of amount that alone leaves least room for the class.
const Amount& TightestAmount(const PodClass& pod_class, const std::vector<NodeRoom>& rooms) {
  const Amount* tightest = kAmounts.data();
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Amount& amount : kAmounts) {
    PodClass alone = pod_class;
    alone.request = Resources{};
    alone.request.*amount.value = pod_class.request.*amount.value;
    const int64_t count = RoomFor(alone, rooms);
    if (count < least) {
      least = count;
      tightest = &amount;
    }
  }
  return *tightest;
}

std::optional<Unschedulable> BrokenByClass(const PodClass& pod_class,
                                           const std::vector<NodeRoom>& rooms,
                                           bool is_one_machine) {
  const auto wanted = static_cast<int64_t>(pod_class.pods.size());
  const int64_t found = RoomFor(pod_class, rooms);
  if (found >= wanted) {
    return std::nullopt;
  }
  const Amount& amount = TightestAmount(pod_class, rooms);
  const Figures figures =
      FiguresOf(amount.constraint, pod_class.request.*amount.value, /*found=*/0);
  return Unschedulable{
      amount.constraint,
      "needs " + Plural(wanted, pod_class.name + " pod") + " of " + figures.needed +
          " each, room for " + std::to_string(found) +
          (is_one_machine ? std::string(" on this machine")
                          : " on " + Plural(static_cast<int64_t>(rooms.size()), "node"))};
}

}  // namespace

std::optional<Unschedulable> BrokenBound(const Snapshot& snapshot,
                                         const std::vector<PodClass>& classes,
                                         const std::vector<NodeRoom>& rooms) {
  if (rooms.empty()) {
    return Unschedulable{Constraint::kNodes,
                         snapshot.is_one_machine
                             ? "this machine accepts no pods"
                             : "none of " +
                                   Plural(static_cast<int64_t>(snapshot.nodes.size()), "node") +
                                   " accepts pods"};
  }
  if (auto broken = BrokenSelector(classes, rooms, snapshot.is_one_machine)) {
    return broken;
  }
  if (!snapshot.is_one_machine) {
    for (const PodClass& pod_class : classes) {
      if (auto broken = BrokenByOnePod(pod_class, rooms)) {
        return broken;
      }
    }
  }
  if (auto broken = BrokenBySum(classes, rooms, snapshot.is_one_machine)) {
    return broken;
  }
  for (const PodClass& pod_class : classes) {
    if (auto broken = BrokenByClass(pod_class, rooms, snapshot.is_one_machine)) {
      return broken;
    }
  }
  return std::nullopt;
}

Unschedulable NoArrangement(const std::vector<PodClass>& classes, bool is_proved) {
  std::string pods;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (i > 0) {
      pods += i + 1 == classes.size() ? " and " : ", ";
    }
    pods += Plural(static_cast<int64_t>(classes[i].pods.size()), classes[i].name + " pod");
  }
  if (is_proved) {
    return {Constraint::kFragmentation,
            "needs " + pods + " at once, each role fits alone but not all together"};
  }
  return {Constraint::kSearchLimit,
          "needs " + pods + " at once, no arrangement found within the search limit"};
}

}  // namespace lockstep::control

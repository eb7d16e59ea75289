#include "operator/resources/resource_vector.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "common/base/saturating.h"

namespace lockstep::control {
namespace {

int64_t LeftOf(int64_t all, int64_t used) {
  return std::max<int64_t>(0, SubtractSaturated(all, used));
}

int64_t FitsTimes(int64_t free, int64_t request, int64_t count_max) {
  return request <= 0 ? count_max : std::min(count_max, std::max<int64_t>(0, free) / request);
}

const std::string& KeyOf(const NamedAmount& one) {
  return one.name;
}

int64_t KeyOf(const PortCount& one) {
  return one.port;
}

int64_t ValueOf(const NamedAmount& one) {
  return one.amount;
}

int64_t ValueOf(const PortCount& one) {
  return one.count;
}

// Both lists are sorted by key: one walk over the two.
template <typename Entry, typename Combine>
std::vector<Entry> Merged(const std::vector<Entry>& a,
                          const std::vector<Entry>& b,
                          const Combine& combine) {
  std::vector<Entry> merged;
  auto left = a.begin();
  auto right = b.begin();
  while (left != a.end() || right != b.end()) {
    const bool takes_left = right == b.end() || (left != a.end() && KeyOf(*left) <= KeyOf(*right));
    const bool takes_right = left == a.end() || (right != b.end() && KeyOf(*right) <= KeyOf(*left));
    const Entry& one = takes_left ? *left : *right;
    const int64_t value =
        combine(takes_left ? ValueOf(*left) : 0, takes_right ? ValueOf(*right) : 0);
    if (value != 0) {
      merged.push_back({KeyOf(one), value});
    }
    left += takes_left ? 1 : 0;
    right += takes_right ? 1 : 0;
  }
  return merged;
}

// But for ports.
template <typename Combine>
ResourceVector CombinedAmounts(const ResourceVector& a,
                               const ResourceVector& b,
                               const Combine& combine) {
  ResourceVector combined{combine(a.cpu_milli, b.cpu_milli),
                          combine(a.memory_bytes, b.memory_bytes),
                          combine(a.gpu_count, b.gpu_count),
                          {},
                          {}};
  if (!a.others.empty() || !b.others.empty()) {
    combined.others = Merged(a.others, b.others, combine);
  }
  return combined;
}

template <typename Combine>
std::vector<PortCount> CombinedPorts(const ResourceVector& a,
                                     const ResourceVector& b,
                                     const Combine& combine) {
  return a.host_ports.empty() && b.host_ports.empty() ? std::vector<PortCount>()
                                                      : Merged(a.host_ports, b.host_ports, combine);
}

template <typename Combine>
ResourceVector Combined(const ResourceVector& a, const ResourceVector& b, const Combine& combine) {
  ResourceVector combined = CombinedAmounts(a, b, combine);
  combined.host_ports = CombinedPorts(a, b, combine);
  return combined;
}

// Empty: the name is of no port.
std::optional<int64_t> PortOf(std::string_view name) {
  if (!name.starts_with(kHostPortPrefix)) {
    return std::nullopt;
  }
  name.remove_prefix(kHostPortPrefix.size());
  int64_t port = 0;
  const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), port);
  return failure == std::errc() && end == name.data() + name.size() ? std::optional(port)
                                                                    : std::nullopt;
}

std::vector<PortCount>::const_iterator PlaceOf(const std::vector<PortCount>& ports, int64_t port) {
  return std::lower_bound(
      ports.begin(), ports.end(), port, [](const PortCount& one, int64_t wanted) {
        return one.port < wanted;
      });
}

int64_t CountOf(const std::vector<PortCount>& ports, int64_t port) {
  const auto at = PlaceOf(ports, port);
  return at == ports.end() || at->port != port ? 0 : at->count;
}

void SetCount(int64_t port, int64_t count, std::vector<PortCount>* ports) {
  const auto at = PlaceOf(*ports, port);
  const auto index = at - ports->cbegin();
  const bool is_there = at != ports->end() && at->port == port;
  if (is_there && count == 0) {
    ports->erase(at);
  } else if (is_there) {
    (*ports)[static_cast<std::size_t>(index)].count = count;
  } else if (count != 0) {
    ports->insert(at, {port, count});
  }
}

// One pod more at most: each takes the same ports.
int64_t FitsPorts(const ResourceVector& free, const ResourceVector& request, int64_t count_max) {
  if (request.host_ports.empty()) {
    return count_max;
  }
  const bool fits = std::all_of(
      request.host_ports.begin(), request.host_ports.end(), [&](const PortCount& asked) {
        return asked.count <= 0 || (asked.count == 1 && CountOf(free.host_ports, asked.port) <= 0);
      });
  return fits ? std::min<int64_t>(count_max, 1) : 0;
}

}  // namespace

int64_t ResourceVector::AmountOf(std::string_view name) const {
  if (name == kCpuResource) {
    return cpu_milli;
  }
  if (name == kMemoryResource) {
    return memory_bytes;
  }
  if (name == kGpuResource) {
    return gpu_count;
  }
  if (const auto port = PortOf(name)) {
    return CountOf(host_ports, *port);
  }
  const auto found = std::find_if(
      others.begin(), others.end(), [&](const NamedAmount& other) { return other.name == name; });
  return found == others.end() ? 0 : found->amount;
}

void ResourceVector::Set(std::string_view name, int64_t amount) {
  if (name == kCpuResource) {
    cpu_milli = amount;
  } else if (name == kMemoryResource) {
    memory_bytes = amount;
  } else if (name == kGpuResource) {
    gpu_count = amount;
  } else if (const auto port = PortOf(name)) {
    SetCount(*port, amount, &host_ports);
  } else {
    const auto at = std::lower_bound(
        others.begin(), others.end(), name, [](const NamedAmount& other, std::string_view wanted) {
          return other.name < wanted;
        });
    const bool is_there = at != others.end() && at->name == name;
    if (is_there && amount == 0) {
      others.erase(at);
    } else if (is_there) {
      at->amount = amount;
    } else if (amount != 0) {
      others.insert(at, {std::string(name), amount});
    }
  }
}

std::vector<NamedAmount> ResourceVector::All() const {
  std::vector<NamedAmount> all;
  const auto add = [&](std::string_view name, int64_t amount) {
    if (amount != 0) {
      all.push_back({std::string(name), amount});
    }
  };
  add(kGpuResource, gpu_count);
  std::copy_if(others.begin(), others.end(), std::back_inserter(all), [](const NamedAmount& other) {
    return IsDevice(other.name);
  });
  add(kMemoryResource, memory_bytes);
  add(kCpuResource, cpu_milli);
  std::copy_if(others.begin(), others.end(), std::back_inserter(all), [](const NamedAmount& other) {
    return !IsDevice(other.name);
  });
  return all;
}

std::vector<NamedAmount> ResourceVector::AllWithPorts() const {
  std::vector<NamedAmount> all = All();
  for (const PortCount& one : host_ports) {
    all.push_back({HostPortResource(one.port), one.count});
  }
  return all;
}

std::string HostPortResource(int64_t port) {
  return std::string(kHostPortPrefix) + std::to_string(port);
}

bool IsDevice(std::string_view name) {
  return name.find('/') != std::string_view::npos;
}

bool IsCountedInBytes(std::string_view name) {
  return name == kMemoryResource || name == kEphemeralStorageResource ||
         name.starts_with("hugepages-");
}

std::string QuantityText(const NamedAmount& amount) {
  constexpr int64_t kThousand = 1000;
  constexpr int64_t kKibi = 1024;
  constexpr std::array kBinary = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  if (amount.name == kCpuResource) {
    return amount.amount % kThousand == 0 ? std::to_string(amount.amount / kThousand)
                                          : std::to_string(amount.amount) + "m";
  }
  int64_t count = amount.amount;
  std::size_t suffix = 0;
  const bool is_of_bytes = IsCountedInBytes(amount.name);
  while (is_of_bytes && count != 0 && count % kKibi == 0) {
    count /= kKibi;
    ++suffix;
  }
  return std::to_string(count) + kBinary.at(suffix);
}

ResourceVector Sum(const ResourceVector& a, const ResourceVector& b) {
  return Combined(a, b, AddSaturated);
}

ResourceVector Larger(const ResourceVector& a, const ResourceVector& b) {
  return Combined(a, b, [](int64_t one, int64_t other) { return std::max(one, other); });
}

ResourceVector Times(const ResourceVector& amounts, int64_t count) {
  return Combined(amounts, {}, [&](int64_t amount, int64_t /*none*/) {
    return MultiplySaturated(amount, count);
  });
}

ResourceVector Capped(const ResourceVector& amounts, int64_t amount_max) {
  return Combined(
      amounts, {}, [&](int64_t amount, int64_t /*none*/) { return std::min(amount, amount_max); });
}

ResourceVector WithoutPorts(ResourceVector amounts) {
  amounts.host_ports.clear();
  return amounts;
}

ResourceVector Left(const ResourceVector& all, const ResourceVector& used) {
  ResourceVector left = CombinedAmounts(all, used, LeftOf);
  left.host_ports = CombinedPorts(all, used, AddSaturated);
  return left;
}

ResourceVector Without(const ResourceVector& all, const ResourceVector& used) {
  return GivenBack(all, Times(used, -1));
}

ResourceVector GivenBack(const ResourceVector& free, const ResourceVector& used) {
  ResourceVector more = CombinedAmounts(free, used, AddSaturated);
  more.host_ports = CombinedPorts(free, used, SubtractSaturated);
  return more;
}

int64_t FreeAmountOf(const ResourceVector& free, std::string_view name) {
  const auto port = PortOf(name);
  return port ? int64_t{CountOf(free.host_ports, *port) <= 0} : free.AmountOf(name);
}

int64_t CountThatFits(const ResourceVector& free,
                      const ResourceVector& request,
                      int64_t count_max) {
  int64_t count = FitsTimes(free.gpu_count, request.gpu_count, count_max);
  count = FitsTimes(free.memory_bytes, request.memory_bytes, count);
  count = FitsTimes(free.cpu_milli, request.cpu_milli, count);
  for (const NamedAmount& other : request.others) {
    count = FitsTimes(free.AmountOf(other.name), other.amount, count);
  }
  return count <= 0 ? count : FitsPorts(free, request, count);
}

}  // namespace lockstep::control

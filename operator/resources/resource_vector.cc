#include "operator/resources/resource_vector.h"

#include <algorithm>
#include <array>
#include <limits>

namespace lockstep::control {
namespace {

int64_t AddSaturated(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) {
    return sum;
  }
  return a > 0 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

int64_t MultiplySaturated(int64_t a, int64_t b) {
  int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) {
    return product;
  }
  return (a > 0) == (b > 0) ? std::numeric_limits<int64_t>::max()
                            : std::numeric_limits<int64_t>::min();
}

int64_t LeftOf(int64_t all, int64_t used) {
  return std::max<int64_t>(0, AddSaturated(all, MultiplySaturated(used, -1)));
}

int64_t FitsTimes(int64_t free, int64_t request, int64_t count_max) {
  return request <= 0 ? count_max : std::min(count_max, std::max<int64_t>(0, free) / request);
}

// Both lists are sorted by name: one walk over the two.
template <typename Combine>
std::vector<NamedAmount> Merged(const std::vector<NamedAmount>& a,
                                const std::vector<NamedAmount>& b,
                                const Combine& combine) {
  std::vector<NamedAmount> merged;
  auto left = a.begin();
  auto right = b.begin();
  while (left != a.end() || right != b.end()) {
    const bool takes_left = right == b.end() || (left != a.end() && left->name <= right->name);
    const bool takes_right = left == a.end() || (right != b.end() && right->name <= left->name);
    const std::string& name = takes_left ? left->name : right->name;
    const int64_t amount = combine(takes_left ? left->amount : 0, takes_right ? right->amount : 0);
    if (amount != 0) {
      merged.push_back({name, amount});
    }
    left += takes_left ? 1 : 0;
    right += takes_right ? 1 : 0;
  }
  return merged;
}

template <typename Combine>
ResourceVector Combined(const ResourceVector& a, const ResourceVector& b, const Combine& combine) {
  ResourceVector combined{combine(a.cpu_milli, b.cpu_milli),
                          combine(a.memory_bytes, b.memory_bytes),
                          combine(a.gpu_count, b.gpu_count),
                          {}};
  if (!a.others.empty() || !b.others.empty()) {
    combined.others = Merged(a.others, b.others, combine);
  }
  return combined;
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

ResourceVector Left(const ResourceVector& all, const ResourceVector& used) {
  return Combined(all, used, LeftOf);
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
  return count;
}

}  // namespace lockstep::control

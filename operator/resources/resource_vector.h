#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::control {

// Names of resources as Kubernetes writes them.
inline constexpr std::string_view kCpuResource = "cpu";
inline constexpr std::string_view kMemoryResource = "memory";
inline constexpr std::string_view kGpuResource = "nvidia.com/gpu";
inline constexpr std::string_view kEphemeralStorageResource = "ephemeral-storage";

// "hostPort:80": what people read of a port of the node itself.
inline constexpr std::string_view kHostPortPrefix = "hostPort:";
std::string HostPortResource(int64_t port);

struct NamedAmount {
  std::string name;
  int64_t amount = 0;

  friend auto operator<=>(const NamedAmount&, const NamedAmount&) = default;
};

// A port of the node itself, and how many pods take it.
struct PortCount {
  int64_t port = 0;
  int64_t count = 0;

  friend auto operator<=>(const PortCount&, const PortCount&) = default;
};

// Amounts of named resources, asked for or offered: the one such type, and its operations the only
// sums. Units: thousandths of a core for "cpu", bytes of memory and storage, whole ones of all
// else. Sums stay at the largest number where they would not fit: what others ask for is theirs to
// choose. The three that almost every pod has stand in place, so that most vectors own no memory.
struct ResourceVector {
  int64_t cpu_milli = 0;
  int64_t memory_bytes = 0;
  int64_t gpu_count = 0;              // of nvidia.com/gpu
  std::vector<NamedAmount> others{};  // by name, each once, none of them zero
  // By port, each once, none of them zero. Of what is asked for and of what is held: who takes the
  // port. Of what is free: who has taken it. A node offers every port once and lists none of them,
  // so that a port is nowhere but in what the pods hold that ask for it.
  std::vector<PortCount> host_ports{};

  // HostPortResource names a port here, too.
  int64_t AmountOf(std::string_view name) const;
  void Set(std::string_view name, int64_t amount);

  // All that are not zero: GPUs, then other devices by name, memory, cpu, then what is left.
  // Without ports, which are no amounts.
  std::vector<NamedAmount> All() const;

  // The same, then the ports by HostPortResource: what pods ask for, and what is missing for them.
  std::vector<NamedAmount> AllWithPorts() const;

  friend auto operator<=>(const ResourceVector&, const ResourceVector&) = default;
};

// Whether a resource is a thing that a node has a few of: "nvidia.com/gpu", "rdma/hca".
bool IsDevice(std::string_view name);

// Whether it is counted in bytes: memory, ephemeral-storage, pages of any size.
bool IsCountedInBytes(std::string_view name);

// As Kubernetes writes it, and ParseQuantity reads it back: "500m" and "16" of cpu, "64Gi" of what
// is counted in bytes, "8" of others.
std::string QuantityText(const NamedAmount& amount);

ResourceVector Sum(const ResourceVector& a, const ResourceVector& b);

// The larger of the two, name by name.
ResourceVector Larger(const ResourceVector& a, const ResourceVector& b);

// `count` times as much. `count` may be negative.
ResourceVector Times(const ResourceVector& amounts, int64_t count);

// None more than `amount_max`.
ResourceVector Capped(const ResourceVector& amounts, int64_t amount_max);

ResourceVector WithoutPorts(ResourceVector amounts);

// What is left of `all`, which is free, without `used`; nothing where more is used than there is.
ResourceVector Left(const ResourceVector& all, const ResourceVector& used);

// The same below nothing, so that it can be given back.
ResourceVector Without(const ResourceVector& all, const ResourceVector& used);
ResourceVector GivenBack(const ResourceVector& free, const ResourceVector& used);

// How much there is of what has that name, in what is free or offered: of a port 1, or 0 if it is
// taken.
int64_t FreeAmountOf(const ResourceVector& free, std::string_view name);

// How often `request` goes into `free`, at most `count_max`; a request of nothing never limits.
int64_t CountThatFits(const ResourceVector& free, const ResourceVector& request, int64_t count_max);

}  // namespace lockstep::control

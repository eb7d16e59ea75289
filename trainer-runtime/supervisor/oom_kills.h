#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::runtime {

// How many processes the kernel has killed for want of memory, by a cgroup's memory.events; null
// where it does not say. Pure.
std::optional<int64_t> ParseOomKills(std::string_view events);

// Of this container's cgroup, as it sees it; null where there is none.
std::optional<int64_t> OomKills(const std::string& path = "/sys/fs/cgroup/memory.events");

}  // namespace lockstep::runtime

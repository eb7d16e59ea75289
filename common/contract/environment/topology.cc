#include "common/contract/environment/topology.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "common/base/check.h"
#include "common/base/dns_label.h"
#include "common/contract/text/problems.h"
#include "common/contract/text/text.h"

namespace lockstep {
namespace {

constexpr int kPortMax = 65535;

bool IsLower(char c) {
  return c >= 'a' && c <= 'z';
}

bool IsDnsName(std::string_view text) {
  while (!text.empty()) {
    const std::size_t dot = text.find('.');
    if (!IsHostLabel(text.substr(0, dot))) {
      return false;
    }
    if (dot == std::string_view::npos) {
      return true;
    }
    text.remove_prefix(dot + 1);
  }
  return false;
}

// A number as we write it: digits without sign or leading zero, at most `max`.
std::optional<int64_t> ParseNumber(std::string_view text, int64_t max) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  if (text.empty() || !IsDigit(text.front()) || (text.size() > 1 && text.front() == '0')) {
    return std::nullopt;
  }
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc() || stop != end || value > max) {
    return std::nullopt;
  }
  return value;
}

const RoleTopology* FindRole(const JobTopology& topology, Role role) {
  for (const RoleTopology& entry : topology.roles) {
    if (entry.role == role) {
      return &entry;
    }
  }
  return nullptr;
}

int ReplicasOf(const JobTopology& topology, Role role) {
  const RoleTopology* entry = FindRole(topology, role);
  return entry == nullptr ? 0 : entry->replicas;
}

bool IsInJob(const JobTopology& topology, const TaskId& task) {
  return task.index >= 0 && task.index < ReplicasOf(topology, task.role);
}

std::string RolePath(std::size_t index, std::string_view key) {
  return "spec.roles[" + std::to_string(index) + "]." + std::string(key);
}

void CheckRange(std::string field, int value, int min, int max, std::vector<Error>* errors) {
  if (value < min || value > max) {
    errors->push_back(Problem(
        std::move(field),
        std::to_string(value),
        min == max ? std::to_string(min) + " for this role"
                   : "a whole number from " + std::to_string(min) + " to " + std::to_string(max)));
  }
}

void CheckRoles(const JobTopology& topology, std::vector<Error>* errors) {
  const RoleTopology* first_rank_role = nullptr;
  for (std::size_t i = 0; i < topology.roles.size(); ++i) {
    const RoleTopology& entry = topology.roles[i];
    const std::string name(RoleName(entry.role));
    if (FindRole(topology, entry.role) != &entry) {
      errors->push_back(Problem(RolePath(i, "name"), Quoted(name), "each role once"));
    }
    const bool is_single = entry.role == Role::kChief || entry.role == Role::kEvaluator;
    if (is_single && entry.replicas != 1) {
      errors->push_back(Problem(RolePath(i, "replicas"),
                                std::to_string(entry.replicas),
                                "1: a job has at most one " + name));
    } else {
      CheckRange(RolePath(i, "replicas"), entry.replicas, 1, kReplicasMax, errors);
    }
    if (!IsRank(entry.role)) {
      CheckRange(RolePath(i, "processes"), entry.processes, 1, 1, errors);
      continue;
    }
    CheckRange(RolePath(i, "processes"), entry.processes, 1, kProcessesMax, errors);
    if (first_rank_role != nullptr && first_rank_role->processes != entry.processes) {
      errors->push_back(Problem(RolePath(i, "processes"),
                                std::to_string(entry.processes),
                                std::to_string(first_rank_role->processes) + ", as in role " +
                                    std::string(RoleName(first_rank_role->role)) +
                                    ": all pods that train must run the same number of processes"));
    }
    first_rank_role = first_rank_role == nullptr ? &entry : first_rank_role;
  }
  if (first_rank_role == nullptr) {
    errors->push_back(
        Problem("spec.roles", "no role that trains", "a chief or at least one worker"));
  }
}

// The host name that is longest; host names differ in role and digits only.
std::string LongestHostName(const JobTopology& topology) {
  std::string longest;
  for (const RoleTopology& entry : topology.roles) {
    const int last = std::clamp(entry.replicas, 1, kReplicasMax) - 1;
    std::string name = HostName(topology.job, {entry.role, last});
    if (name.size() > longest.size()) {
      longest = std::move(name);
    }
  }
  return longest;
}

void CheckDnsLengths(const JobTopology& topology, std::vector<Error>* errors) {
  const std::string host = LongestHostName(topology);
  const std::size_t label_max{kDnsLabelMax};
  if (host.size() > label_max) {
    errors->push_back(Error(ErrorCode::kInvalidArgument,
                            Quoted(topology.job) + " gives the host name \"" + host +
                                "\", which has " + std::to_string(host.size()) +
                                " characters, expected at most " + std::to_string(label_max) +
                                "; shorten the job's name by " +
                                std::to_string(host.size() - label_max))
                          .WithField("metadata.name"));
    return;
  }
  const auto* dns = std::get_if<DnsAddressing>(&topology.addressing);
  if (dns == nullptr) {
    return;
  }
  if (!dns->domain.empty() && !IsDnsName(dns->domain)) {
    errors->push_back(
        Problem("clusterDomain", Quoted(dns->domain), "a DNS name, or an empty string"));
  }
  const std::size_t name_size = host.size() + topology.job.size() + topology.namespace_name.size() +
                                dns->domain.size() + std::string_view("...svc").size() +
                                (dns->domain.empty() ? 0 : 1);
  if (name_size > std::size_t{kDnsNameMax}) {
    errors->push_back(Problem("clusterDomain",
                              "a host name of " + std::to_string(name_size) + " characters",
                              "at most " + std::to_string(kDnsNameMax)));
  }
}

bool IsLoopbackPrefix(std::string_view prefix) {
  constexpr std::string_view kStart = "127.";
  if (!prefix.starts_with(kStart)) {
    return false;
  }
  prefix.remove_prefix(kStart.size());
  const std::size_t dot = prefix.find('.');
  return dot != std::string_view::npos && ParseNumber(prefix.substr(0, dot), 255).has_value() &&
         ParseNumber(prefix.substr(dot + 1), 255).has_value();
}

void CheckLoopback(const JobTopology& topology, std::vector<Error>* errors) {
  const auto* loopback = std::get_if<LoopbackAddressing>(&topology.addressing);
  if (loopback == nullptr) {
    return;
  }
  if (!IsLoopbackPrefix(loopback->prefix)) {
    errors->push_back(Problem(
        "loopbackPrefix", Quoted(loopback->prefix), "\"127.x.y\" of x and y from 0 to 255"));
  }
  int64_t pod_count = 0;
  for (const RoleTopology& entry : topology.roles) {
    pod_count += std::max(entry.replicas, 0);
  }
  if (pod_count > kLoopbackPodCountMax) {
    errors->push_back(
        Problem("spec.roles",
                std::to_string(pod_count) + " pods",
                "at most " + std::to_string(kLoopbackPodCountMax) + " on one machine"));
  }
}

// Takes "-{letter}{number}" off the end of `text`; the number, or 0 where it does not end so.
// A number that PodName would not write makes the whole name foreign: nullopt.
std::optional<int64_t> TakeSuffix(std::string_view* text, char letter) {
  const std::size_t dash = text->rfind('-');
  if (dash == std::string_view::npos || dash + 1 >= text->size() || (*text)[dash + 1] != letter) {
    return 0;
  }
  const std::string_view digits = text->substr(dash + 2);
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), IsDigit)) {
    return 0;
  }
  const std::optional<int64_t> number = ParseNumber(digits, std::numeric_limits<int64_t>::max());
  if (!number.has_value() || *number == 0) {
    return std::nullopt;
  }
  text->remove_suffix(text->size() - dash);
  return number;
}

}  // namespace

std::string TaskName(const TaskId& task) {
  return std::string(RoleName(task.role)) + "-" + std::to_string(task.index);
}

std::string FormatHostPort(const HostPort& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

Result<HostPort> ParseHostPort(std::string_view text) {
  const auto wrong = [text](std::string_view why) {
    return Error(ErrorCode::kInvalidArgument,
                 Quoted(text) + " found, expected host:port with a port from 1 to 65535 (" +
                     std::string(why) + ")");
  };
  const bool is_bracketed = text.starts_with('[');
  const std::size_t bracket = is_bracketed ? text.find(']') : std::string_view::npos;
  if (is_bracketed && bracket == std::string_view::npos) {
    return wrong("no closing bracket");
  }
  const std::size_t colon = text.find(':', is_bracketed ? bracket : 0);
  if (colon == std::string_view::npos) {
    return wrong("missing port");
  }
  if (is_bracketed && colon != bracket + 1) {
    return wrong("text between bracket and port");
  }
  const std::string_view host = is_bracketed ? text.substr(1, bracket - 1) : text.substr(0, colon);
  const auto is_host_char = [is_bracketed](char c) {
    return IsLower(c) || (c >= 'A' && c <= 'Z') || IsDigit(c) || c == '-' || c == '.' || c == '_' ||
           (is_bracketed && (c == ':' || c == '%'));
  };
  if (host.empty()) {
    return wrong("empty host");
  }
  if (host.size() > std::size_t{kDnsNameMax} ||
      !std::all_of(host.begin(), host.end(), is_host_char)) {
    return wrong("not a host");
  }
  if (is_bracketed && host.find(':') == std::string_view::npos) {
    return wrong("brackets are for IPv6 addresses");
  }
  const std::optional<int64_t> port = ParseNumber(text.substr(colon + 1), kPortMax);
  if (!port.has_value() || *port == 0) {
    return wrong("bad port");
  }
  return HostPort{std::string(host), static_cast<int>(*port)};
}

std::vector<Error> CheckTopology(const JobTopology& topology) {
  std::vector<Error> errors;
  if (!IsDnsLabel(topology.job)) {
    errors.push_back(Problem("metadata.name",
                             Quoted(topology.job),
                             "a DNS label: at most 63 of a-z, 0-9 and '-', starting with a letter "
                             "and ending with a letter or digit"));
  }
  if (!IsHostLabel(topology.namespace_name)) {
    errors.push_back(Problem("metadata.namespace",
                             Quoted(topology.namespace_name),
                             "a DNS label: at most 63 of a-z, 0-9 and '-', starting and ending "
                             "with a letter or digit"));
  }
  CheckRoles(topology, &errors);
  CheckDnsLengths(topology, &errors);
  CheckLoopback(topology, &errors);
  CheckRange("masterPort", topology.master_port.value_or(kMasterPort), 1, kPortMax, &errors);
  return errors;
}

std::vector<TaskId> AllTasks(const JobTopology& topology) {
  std::vector<TaskId> tasks;
  for (const Role role : kRoles) {
    for (int index = 0; index < ReplicasOf(topology, role); ++index) {
      tasks.push_back({role, index});
    }
  }
  return tasks;
}

std::vector<RankPlace> RankOrder(const JobTopology& topology) {
  std::vector<RankPlace> places;
  for (const TaskId& task : AllTasks(topology)) {
    for (int l = 0; IsRank(task.role) && l < ProcessesOf(topology, task.role); ++l) {
      places.push_back({task, l});
    }
  }
  return places;
}

int WorldSize(const JobTopology& topology) {
  int size = 0;
  for (const Role role : kRoles) {
    size += IsRank(role) ? ReplicasOf(topology, role) * ProcessesOf(topology, role) : 0;
  }
  return size;
}

std::optional<int> FirstRankOf(const JobTopology& topology, const TaskId& task) {
  if (!IsRank(task.role) || !IsInJob(topology, task)) {
    return std::nullopt;
  }
  int rank = task.index * ProcessesOf(topology, task.role);
  for (const Role role : kRoles) {
    if (role == task.role) {
      break;
    }
    rank += ReplicasOf(topology, role) * ProcessesOf(topology, role);
  }
  return rank;
}

std::optional<RankPlace> PlaceOfRank(const JobTopology& topology, int rank) {
  const std::vector<RankPlace> places = RankOrder(topology);
  if (rank < 0 || rank >= static_cast<int>(places.size())) {
    return std::nullopt;
  }
  return places[static_cast<std::size_t>(rank)];
}

int ProcessesOf(const JobTopology& topology, Role role) {
  const RoleTopology* entry = FindRole(topology, role);
  return entry == nullptr ? 0 : entry->processes;
}

std::string HostName(std::string_view job, const TaskId& task) {
  return std::string(job) + "-" + TaskName(task);
}

std::string PodName(std::string_view job, const TaskId& task, const PodNumber& number) {
  std::string name = HostName(job, task);
  if (number.attempt > Attempt(0)) {
    name += "-a" + std::to_string(number.attempt.value());
  }
  if (number.incarnation > Incarnation(0)) {
    name += "-r" + std::to_string(number.incarnation.value());
  }
  return name;
}

std::optional<PodNameParts> ParsePodName(std::string_view name) {
  const std::optional<int64_t> incarnation = TakeSuffix(&name, 'r');
  const std::optional<int64_t> attempt = TakeSuffix(&name, 'a');
  if (!incarnation.has_value() || !attempt.has_value()) {
    return std::nullopt;
  }
  const std::size_t index_dash = name.rfind('-');
  if (index_dash == std::string_view::npos || index_dash == 0) {
    return std::nullopt;
  }
  const std::size_t role_dash = name.rfind('-', index_dash - 1);
  if (role_dash == std::string_view::npos || role_dash == 0) {
    return std::nullopt;
  }
  const std::optional<Role> role =
      ParseRole(name.substr(role_dash + 1, index_dash - role_dash - 1));
  const std::optional<int64_t> index = ParseNumber(name.substr(index_dash + 1), kReplicasMax - 1);
  const std::string_view job = name.substr(0, role_dash);
  if (!role.has_value() || !index.has_value() || !IsDnsLabel(job)) {
    return std::nullopt;
  }
  return PodNameParts{std::string(job),
                      {*role, static_cast<int>(*index)},
                      {Attempt(*attempt), Incarnation(*incarnation)}};
}

namespace {

// The pod's place among all pods of the job, in the order of AllTasks.
int PositionOf(const JobTopology& topology, const TaskId& task) {
  int position = task.index;
  for (const Role role : kRoles) {
    if (role == task.role) {
      break;
    }
    position += ReplicasOf(topology, role);
  }
  return position;
}

}  // namespace

std::string HostOf(const JobTopology& topology, const TaskId& task) {
  LOCKSTEP_CHECK(IsInJob(topology, task), TaskName(task) + " is not in the job");
  if (const auto* dns = std::get_if<DnsAddressing>(&topology.addressing)) {
    return HostName(topology.job, task) + "." + topology.job + "." + topology.namespace_name +
           ".svc" + (dns->domain.empty() ? "" : "." + dns->domain);
  }
  return std::get<LoopbackAddressing>(topology.addressing).prefix + "." +
         std::to_string(PositionOf(topology, task) + 1);
}

namespace {

// A run's ports on one machine, from port_base on: the job's three, then one for each process in
// the order of pods.
constexpr int kLoopbackMasterOffset = 0;
constexpr int kLoopbackStatusOffset = 1;
constexpr int kLoopbackHorovodOffset = 2;
constexpr int kLoopbackProcessOffset = 3;

// The first of the run's own ports; null where the ports are those of a cluster's pods.
std::optional<int> OwnPortBase(const Addressing& addressing) {
  const auto* const loopback = std::get_if<LoopbackAddressing>(&addressing);
  return loopback == nullptr || loopback->port_base == 0 ? std::nullopt
                                                         : std::optional(loopback->port_base);
}

// The process's place among all processes of the job, pod by pod.
int ProcessPositionOf(const JobTopology& topology, const RankPlace& place) {
  int position = place.local_rank;
  for (const Role role : kRoles) {
    const int processes = ProcessesOf(topology, role);
    if (role == place.task.role) {
      return position + place.task.index * processes;
    }
    position += ReplicasOf(topology, role) * processes;
  }
  return position;
}

const TaskId& FirstRankTask(const std::optional<RankPlace>& first) {
  LOCKSTEP_CHECK(first.has_value(), "a job without ranks has no master");
  return first->task;
}

}  // namespace

HostPort MeshAddress(const JobTopology& topology, const RankPlace& place) {
  const std::string host = HostOf(topology, place.task);
  if (const std::optional<int> base = OwnPortBase(topology.addressing)) {
    return {host, *base + kLoopbackProcessOffset + ProcessPositionOf(topology, place)};
  }
  return {host, place.local_rank > 0 ? kProcessPortBase + place.local_rank : kMeshPort};
}

HostPort MasterAddress(const JobTopology& topology) {
  const std::optional<int> base = OwnPortBase(topology.addressing);
  const int otherwise = base.has_value() ? *base + kLoopbackMasterOffset : kMasterPort;
  return {HostOf(topology, FirstRankTask(PlaceOfRank(topology, 0))),
          topology.master_port.value_or(otherwise)};
}

HostPort HorovodAddress(const JobTopology& topology) {
  const std::optional<int> base = OwnPortBase(topology.addressing);
  return {HostOf(topology, FirstRankTask(PlaceOfRank(topology, 0))),
          base.has_value() ? *base + kLoopbackHorovodOffset : kHorovodPort};
}

int StatusPortOf(const Addressing& addressing) {
  const std::optional<int> base = OwnPortBase(addressing);
  return base.has_value() ? *base + kLoopbackStatusOffset : kStatusPort;
}

int LoopbackPortCount(const JobTopology& topology) {
  int count = kLoopbackProcessOffset;
  for (const RoleTopology& role : topology.roles) {
    count += role.replicas * role.processes;
  }
  return count;
}

}  // namespace lockstep

#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "common/contract/environment/role.h"

namespace lockstep {

// One pod's place in a job: role, and index from 0 within the role.
struct TaskId {
  Role role = Role::kWorker;
  int index = 0;

  friend auto operator<=>(const TaskId&, const TaskId&) = default;
};

// "worker-1".
std::string TaskName(const TaskId& task);

// A network address as "host:port"; an IPv6 host is written in brackets.
struct HostPort {
  std::string host;
  int port = 0;

  friend auto operator<=>(const HostPort&, const HostPort&) = default;
};

std::string FormatHostPort(const HostPort& address);

// Errors: kInvalidArgument (no port, port outside 1-65535, empty host, character that no host has).
Result<HostPort> ParseHostPort(std::string_view text);

// Ports inside a pod of a cluster. Each pod has its own address, so they are equal in all pods.
inline constexpr int kMeshPort = 2222;     // mesh and TF_CONFIG; TensorFlow's own convention
inline constexpr int kStatusPort = 2223;   // /status, /metrics, /healthz, /control
inline constexpr int kHorovodPort = 2224;  // Horovod's HTTP rendezvous, served at rank 0's pod
// Local rank l >= 1 of a pod listens on kProcessPortBase + l, clear of the ports above.
inline constexpr int kProcessPortBase = 2230;
inline constexpr int kMasterPort = 29500;  // MASTER_PORT: torch's default; the program binds it

// Bounds of a job. Choices: beyond the largest published jobs of this kind, and small enough that
// every list stays in memory without thought.
inline constexpr int kReplicasMax = 4096;
inline constexpr int kProcessesMax = 64;
// Ranks of the built-in trainer, whose collectives hold no more yet.
inline constexpr int kTrainerRanksMax = 1024;
// Ranks that train a model each: a pod's last words, 4,096 bytes, tell of every model.
inline constexpr int kModelsMax = 64;
inline constexpr int kDnsLabelMax = 63;           // RFC 1035, 2.3.4
inline constexpr int kDnsNameMax = 253;           // RFC 1035, without the trailing dot
inline constexpr int kLoopbackPodCountMax = 254;  // 127.x.y.1 to 127.x.y.254

// Pods are found by DNS: `{host}.{job}.{namespace}.svc[.{domain}]`.
struct DnsAddressing {
  std::string domain;  // the cluster's domain; empty: left to the pods' search path

  friend bool operator==(const DnsAddressing&, const DnsAddressing&) = default;
};

// Pods are processes of one machine; the n-th pod (from 0) has address `{prefix}.{n + 1}`.
struct LoopbackAddressing {
  std::string prefix;  // "127.x.y", chosen per run
  // The first of LoopbackPortCount ports that are the run's alone; 0: the ports of a cluster's
  // pods. TensorFlow's server and torch's store bind theirs on all addresses of the machine, so
  // that every process needs its own, and every run others than the next.
  int port_base = 0;

  friend bool operator==(const LoopbackAddressing&, const LoopbackAddressing&) = default;
};

using Addressing = std::variant<DnsAddressing, LoopbackAddressing>;

struct RoleTopology {
  Role role = Role::kWorker;
  int replicas = 1;
  int processes = 1;  // per pod

  friend bool operator==(const RoleTopology&, const RoleTopology&) = default;
};

// Who is in a job and how they find each other. Everything below is a pure function of it, so
// operator and runtime never exchange addresses.
struct JobTopology {
  std::string job;
  std::string namespace_name;
  std::vector<RoleTopology> roles;  // each role at most once, any order
  Addressing addressing = DnsAddressing{};
  // MASTER_PORT where the job says so: torch's store listens on every address of its host, so jobs
  // that share one host need different ones. Null: kMasterPort, on one machine the run's own.
  std::optional<int> master_port = std::nullopt;

  friend bool operator==(const JobTopology&, const JobTopology&) = default;
};

// Every problem of a topology: job and namespace names that are not DNS labels, a host name above
// 63 characters (the longest is named), a role twice, replicas or processes out of range, more than
// one chief or evaluator, no rank, unequal processes among pods that train, a loopback block that
// is malformed or too small. Fields are paths of the manifest. Empty: the topology is sound.
std::vector<Error> CheckTopology(const JobTopology& topology);

// All pods: chief, workers, ps, evaluator, each by index.
std::vector<TaskId> AllTasks(const JobTopology& topology);

// One process that trains: the pod and the process's number within it.
struct RankPlace {
  TaskId task;
  int local_rank = 0;

  friend auto operator<=>(const RankPlace&, const RankPlace&) = default;
};

// The rank order: element r is where rank r runs. Chief first, then workers by index, all processes
// of a pod side by side. TF_CONFIG, RANK, the mesh and the operator all take it from here.
std::vector<RankPlace> RankOrder(const JobTopology& topology);

// The number of ranks: processes that train.
int WorldSize(const JobTopology& topology);

// The rank of the pod's first process; nullopt for ps, evaluator and pods not in the job.
std::optional<int> FirstRankOf(const JobTopology& topology, const TaskId& task);

// Where `rank` runs; nullopt outside [0, WorldSize).
std::optional<RankPlace> PlaceOfRank(const JobTopology& topology, int rank);

// Processes per pod of the role; 0 when the job does not have it.
int ProcessesOf(const JobTopology& topology, Role role);

// "{job}-{role}-{index}": the pod's DNS label, kept by its replacements.
std::string HostName(std::string_view job, const TaskId& task);

// What distinguishes the pods that stand for one task one after the other.
struct PodNumber {
  Attempt attempt;
  Incarnation incarnation;

  friend auto operator<=>(const PodNumber&, const PodNumber&) = default;
};

// The pod's name: the host name, then "-a{attempt}" from attempt 1 on and "-r{n}" for the n-th
// replacement within the attempt. Two different pods never share a name, also across jobs, so a
// replacement never waits for a dead node to let a name go.
std::string PodName(std::string_view job, const TaskId& task, const PodNumber& number);

struct PodNameParts {
  std::string job;
  TaskId task;
  PodNumber number;

  friend bool operator==(const PodNameParts&, const PodNameParts&) = default;
};

// The inverse of PodName; nullopt for a text that PodName cannot have made.
std::optional<PodNameParts> ParsePodName(std::string_view name);

// The host part of the pod's address: DNS name or loopback address. The same for replacements.
// Precondition (checked): the pod is in the job.
std::string HostOf(const JobTopology& topology, const TaskId& task);

// Where process `local_rank` of the pod listens for its peers; what TF_CONFIG lists.
HostPort MeshAddress(const JobTopology& topology, const RankPlace& place);

// Where Horovod's rendezvous is served for the job. Precondition (checked): the job has a rank.
HostPort HorovodAddress(const JobTopology& topology);

// The port of every pod's status document.
int StatusPortOf(const Addressing& addressing);

// How many ports a run on one machine needs: one for each process, and three for the job.
int LoopbackPortCount(const JobTopology& topology);

// Rank 0's host and the job's master port. Precondition (checked): the job has a rank.
HostPort MasterAddress(const JobTopology& topology);

}  // namespace lockstep

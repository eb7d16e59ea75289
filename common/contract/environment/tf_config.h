#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/contract/environment/relaunch.h"
#include "common/contract/environment/topology.h"

namespace lockstep {

// TF_CONFIG: the document by which TensorFlow programs, and our own mesh, learn who is in the
// cluster and who they are. Rules follow TensorFlow's TFConfigClusterResolver and
// multi_worker_util; what those let pass and breaks later (negative index, duplicate address,
// missing port) is an error here.

// The longest single environment string Linux passes to a program: MAX_ARG_STRLEN, 32 pages.
inline constexpr std::size_t kTfConfigBytesMax = 128 * 1024;

// TF_CONFIG of a process whose own is longer than that. TensorFlow refuses the role and shows its
// name; without any TF_CONFIG each of thousands of processes would train alone, and say nothing.
inline constexpr std::string_view kTfConfigTooLong =
    R"({"cluster":{"longer than Linux allows, see LOCKSTEP_CLUSTER":[]},)"
    R"("task":{"type":"worker","index":0}})";

// The addresses of one role by index. Dense documents list all indexes from 0 without a gap.
using TaskAddresses = std::map<int, HostPort>;

struct TfConfig {
  std::map<Role, TaskAddresses> cluster;  // empty: local, one process by itself
  std::optional<TaskId> task;             // absent only when local
  bool is_sparse = false;                 // some role was given as {index: address}
  std::string environment;                // "cloud" where the legacy operator wrote it; else empty

  // Whether the program runs by itself, without a cluster.
  bool is_local() const { return cluster.empty(); }

  friend bool operator==(const TfConfig&, const TfConfig&) = default;
};

struct TfConfigOptions {
  bool include_evaluator = false;    // list the evaluator in the training roles' documents too
  bool include_environment = false;  // add "environment": "cloud"; the dense form only
  bool sparse = false;  // the legacy form for dynamic workers: itself, the chief and all ps
};

// The document of one process. A job of a single process is local. With several processes a pod
// all ranks but rank 0 of a job with a chief are listed as workers, so that TensorFlow's task id
// equals RANK. The evaluator's own document lists it beside the training roles.
// Precondition: CheckTopology(topology) is empty and the place is in the job (checked).
// Errors: kInvalidArgument (sparse with several processes a pod).
Result<TfConfig> MakeTfConfig(const JobTopology& topology,
                              const RankPlace& place,
                              const TfConfigOptions& options = {});

// Compact JSON, roles in alphabetical order as legacy programs saw them; empty for a local one,
// which gets no TF_CONFIG at all. Errors: kResourceExhausted (longer than kTfConfigBytesMax).
Result<std::string> EncodeTfConfig(const TfConfig& config);

// The document as a runtime serves it to the programs of its pod: with "attempt" and "epoch", which
// TensorFlow ignores, and in full however long it is. A local one has an empty cluster and `task`.
std::string EncodeServedTfConfig(const TfConfig& config,
                                 const TaskId& task,
                                 const GangStart& start);

struct TfConfigRules {
  bool allow_ps = true;  // false under a mirrored strategy, where a ps has nothing to do
};

// Parses and checks a document. Empty text, "{}" and a document without cluster are local. Keys we
// do not know are ignored, as TensorFlow ignores them. Errors: kInvalidArgument; names the field,
// the value found and what was expected, for every problem of the document.
Result<TfConfig> ParseTfConfig(std::string_view text, const TfConfigRules& rules = {});

// TensorFlow's id in the cluster: chief 0, worker index + number of chiefs, evaluator its index;
// 0 when local; nullopt for ps. For chief and worker this is the rank.
std::optional<int> TaskNumber(const TfConfig& config);

// The mesh addresses by rank: chief, then workers. Empty when local. Errors: kInvalidArgument (a
// sparse document does not name every peer).
Result<std::vector<HostPort>> RankAddresses(const TfConfig& config);

// The same cluster seen by rank `rank`. Precondition (checked): a dense document, rank in range.
TfConfig TfConfigOfRank(const TfConfig& config, int rank);

}  // namespace lockstep

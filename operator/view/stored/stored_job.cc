#include "operator/view/stored/stored_job.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/base/rfc3339.h"
#include "common/json/json.h"
#include "operator/api/decode_job.h"
#include "operator/api/job/encode.h"
#include "operator/api/status/conditions.h"
#include "operator/api/status/status.h"
#include "operator/kubeclient/kube/decode.h"
#include "operator/reconcile/gang/gang_origin.h"
#include "operator/reconcile/gang/queue.h"
#include "operator/view/stored/object_origin.h"

namespace lockstep::control {
namespace {

// Problems that a condition's message names; more than anybody mends at once.
constexpr std::size_t kProblemsToldMax = 5;

std::string DescribeProblems(const std::vector<Error>& errors) {
  std::string text;
  for (std::size_t i = 0; i < std::min(errors.size(), kProblemsToldMax); ++i) {
    text += (i == 0 ? "" : "; ") + errors[i].ToString();
  }
  if (errors.size() > kProblemsToldMax) {
    text += "; and " + std::to_string(errors.size() - kProblemsToldMax) + " more";
  }
  return text;
}

std::vector<std::string> FinalizersOf(const Json* list) {
  std::vector<std::string> finalizers;
  for (const Json& one : list != nullptr && list->is_array() ? *list : Json::array()) {
    if (one.is_string()) {
      finalizers.push_back(one.get<std::string>());
    }
  }
  return finalizers;
}

// The document; with a problem, what its users have not written of it.
Json Read(std::string_view json, std::string* problem) {
  Result<Json> document = ParseJson(json);
  if (document.ok()) {
    return *std::move(document);
  }
  *problem = document.error().ToString();
  const Result<std::string> rest = kube::WithoutUsersFields(json);
  document = rest.ok() ? ParseJson(*rest) : Result<Json>(rest.error());
  return document.ok() ? *std::move(document) : Json::object();
}

}  // namespace

Result<kube::Item<StoredJob>> DecodeStoredJob(std::string_view json) {
  LOCKSTEP_ASSIGN_OR_RETURN(kube::Item<kube::RawObject> raw, kube::DecodeRaw(json));
  StoredJob stored;
  const Json document = Read(raw.object->json, &stored.problem);
  DecodedJob decoded = DecodeTrainingJob(document);
  stored.job = std::move(decoded.job);
  decoded.errors.insert(
      decoded.errors.end(), decoded.status_errors.begin(), decoded.status_errors.end());
  if (stored.problem.empty()) {
    stored.problem = DescribeProblems(decoded.errors);
    stored.is_newer = decoded.is_newer;
  }
  stored.job.revision = RevisionOf(stored.job.spec);
  const GangOrigin& origin = stored.job.status.origin;
  if (!stored.problem.empty() && origin.active_deadline.has_value()) {
    stored.job.spec.run_policy.active_deadline = origin.active_deadline;
  }
  std::vector<Error> ignored;
  ObjectReader object(document, "", &ignored);
  // What follows from the manifest as it was before an edit is not somebody else's.
  const bool is_of_this_manifest =
      stored.job.status.observed_generation == stored.job.metadata.generation;
  if (const Json* status = object.Find("status");
      status != nullptr && stored.problem.empty() && is_of_this_manifest) {
    stored.is_status_foreign = SaysOtherThanDerived(*status, stored.job);
  }
  if (const Json* metadata = object.Find("metadata")) {
    ObjectReader reader(*metadata, "metadata", &ignored);
    stored.created =
        ParseRfc3339(reader.String("creationTimestamp").value_or("")).value_or(WallTime{});
    stored.is_deleting = reader.Has("deletionTimestamp");
    stored.finalizers = FinalizersOf(reader.Find("finalizers"));
  }
  return ItemOf(std::move(raw), std::move(stored));
}

bool WantsPlace(const StoredJob& stored) {
  return stored.problem.empty() && !stored.is_deleting && IsOurs(stored.job) &&
         !HasEnded(stored.job.status) && stored.job.status.placement.empty() &&
         !stored.job.spec.run_policy.suspend && !AwaitsKueue(stored.job);
}

bool FreesRoom(const StoredJob* before, const StoredJob* after) {
  if (before == nullptr) {
    return false;
  }
  if (after == nullptr) {
    return true;
  }
  return HasEnded(before->job.status) != HasEnded(after->job.status) ||
         WantsPlace(*before) != WantsPlace(*after) ||
         before->job.spec.scheduling.queue != after->job.spec.scheduling.queue ||
         PriorityClassOf(before->job.spec) != PriorityClassOf(after->job.spec) ||
         before->job.spec.run_policy.active_deadline !=
             after->job.spec.run_policy.active_deadline ||
         (!WaitsForPods(before->job.status) && WaitsForPods(after->job.status));
}

std::string StatusBody(const TrainingJob& job, const std::string& version) {
  const Json object = {{"apiVersion", kApiVersion},
                       {"kind", kTrainingJobKind},
                       {"metadata",
                        {{"name", job.metadata.name},
                         {"namespace", job.metadata.namespace_name},
                         {"uid", job.metadata.uid},
                         {"resourceVersion", version}}},
                       {"status", EncodeStatus(job)}};
  return DumpJson(object);
}

}  // namespace lockstep::control

#include "operator/convert/conversion.h"

#include <array>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "operator/api/fields.h"
#include "operator/api/training_job.h"
#include "operator/convert/foreign_object.h"
#include "operator/convert/kubeflow_job.h"
#include "operator/convert/kubeflow_names.h"

namespace lockstep::control {
namespace {

struct ForeignKind {
  std::string_view group;  // how apiVersion begins
  std::string_view kind;
  Json (*convert)(ForeignObject* spec, const ConversionOptions& options);
};

// The first that fits.
constexpr std::array<ForeignKind, 6> kKinds = {{
    {"kubeflow.org/", "TFJob", ConvertTfJob},
    {"kubeflow.org/", "PyTorchJob", ConvertPyTorchJob},
    {"kubeflow.org/v2", "MPIJob", ConvertMpiJobV2},
    {"kubeflow.org/v1alpha2", "MPIJob", ConvertMpiJobV1Alpha2},
    {"kubeflow.org/", "MPIJob", ConvertMpiJob},
    {"trainer.kubeflow.org/", "TrainJob", ConvertTrainJob},
}};

const ForeignKind* KindOf(const Json& document) {
  if (!document.is_object()) {
    return nullptr;
  }
  const Json version = document.value("apiVersion", Json());
  const Json kind = document.value("kind", Json());
  for (const ForeignKind& known : kKinds) {
    if (version.is_string() && version.get<std::string>().starts_with(known.group) &&
        kind == known.kind) {
      return &known;
    }
  }
  return nullptr;
}

constexpr const char* kKueueLabels = "kueue.x-k8s.io/";
constexpr const char* kKueueQueue = "kueue.x-k8s.io/queue-name";

Json ConvertMetadata(ForeignObject metadata) {
  constexpr const char* kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";
  Json result = Json::object();
  for (const char* const key : {"name", "generateName", "namespace", "labels", "annotations"}) {
    metadata.Copy(key, &result);
  }
  if (result.contains("annotations") && result["annotations"].is_object()) {
    result["annotations"].erase(kLastApplied);
    if (result["annotations"].empty()) {
      result.erase("annotations");
    }
  }
  if (result.contains("labels") && result["labels"].is_object()) {
    for (const auto& [label, value] : result["labels"].items()) {
      if (label == kKueueQueue) {
        metadata.Note("labels",
                      label +
                          " is kept: the job waits until Kueue admits it, and for good where "
                          "the operator does not follow Kueue (kueue.enabled of the chart)");
      } else if (label.starts_with(kKueueLabels)) {
        metadata.Note(
            "labels",
            label + " is kept: beside " + kKueueQueue + " the job waits until it is gone");
      }
    }
  }
  // The API server's own words about the object that was read.
  for (const char* const key :
       {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"}) {
    metadata.Take(key);
  }
  metadata.Finish();
  return result;
}

// Jobs of Kueue's are created suspended, and Kueue starts them. Here the label alone has a job
// wait, and nobody but its user starts a suspended one.
void StartSuspendedOfKueue(Json* job, Conversion* conversion) {
  const Json labels = job->at("metadata").value("labels", Json());
  Json& spec = (*job)["spec"];
  const bool is_suspended =
      spec.contains("runPolicy") && spec["runPolicy"].value("suspend", Json()) == true;
  if (is_suspended && labels.is_object() && labels.contains(kKueueQueue)) {
    spec["runPolicy"].erase("suspend");
    conversion->notes.push_back({ForeignField(*conversion, "spec.runPolicy.suspend"),
                                 "not kept: Kueue lifted it there, and here the label " +
                                     std::string(kKueueQueue) + " has the job wait"});
  }
}

}  // namespace

bool IsForeignJob(const Json& document) {
  return KindOf(document) != nullptr;
}

bool IsUnknownForeignJob(const Json& document) {
  const Json version = document.is_object() ? document.value("apiVersion", Json()) : Json();
  const Json kind = document.is_object() ? document.value("kind", Json()) : Json();
  const bool is_theirs = version.is_string() && kind.is_string() &&
                         (version.get<std::string>().starts_with("kubeflow.org/") ||
                          version.get<std::string>().starts_with("trainer.kubeflow.org/")) &&
                         kind.get<std::string>().ends_with("Job");
  return is_theirs && !IsForeignJob(document);
}

std::string ForeignKinds() {
  return "TFJob, PyTorchJob, MPIJob (kubeflow.org) or TrainJob (trainer.kubeflow.org)";
}

Conversion ConvertForeignJob(const Json& document, const ConversionOptions& options) {
  const ForeignKind* const kind = KindOf(document);
  LOCKSTEP_CHECK(kind != nullptr, DescribeJson(document));
  Conversion conversion;
  ForeignObject foreign(&document, "", &conversion);
  for (const char* const key : {"apiVersion", "kind", "status"}) {
    foreign.Take(key);
  }
  Json job = {{"apiVersion", std::string(kApiVersion)}, {"kind", std::string(kTrainingJobKind)}};
  job["metadata"] = ConvertMetadata(foreign.TakeObject("metadata"));
  ForeignObject spec = foreign.TakeObject("spec");
  job["spec"] = kind->convert(&spec, options);
  spec.Finish();
  foreign.Finish();
  StartSuspendedOfKueue(&job, &conversion);
  NoteKubeflowNames(document.value("spec", Json()), job, &conversion);
  if (conversion.errors.empty()) {
    conversion.job = std::move(job);
  }
  return conversion;
}

std::string ForeignField(const std::vector<FieldOrigin>& origins, const std::string& field) {
  const FieldOrigin* nearest = nullptr;
  for (const FieldOrigin& origin : origins) {
    const bool is_nearer = nearest == nullptr || origin.of_job.size() >= nearest->of_job.size();
    if (is_nearer && IsWithin(field, origin.of_job)) {
      nearest = &origin;
    }
  }
  return nearest == nullptr ? field : nearest->foreign + field.substr(nearest->of_job.size());
}

std::string ForeignField(const Conversion& conversion, const std::string& field) {
  return ForeignField(conversion.origins, field);
}

}  // namespace lockstep::control

#include "operator/convert/conversion.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "operator/api/fields/fields.h"
#include "operator/api/job/training_job.h"
#include "operator/api/queue/training_queue.h"
#include "operator/convert/foreign_object.h"
#include "operator/convert/kubeflow_job.h"
#include "operator/convert/kubeflow_names.h"

namespace lockstep::control {
namespace {

constexpr std::string_view kJobGroup = "kubeflow.org/";
constexpr std::string_view kTrainerGroup = "trainer.kubeflow.org/";

struct ForeignKind {
  std::string_view group;  // how apiVersion begins
  std::string_view kind;
  Json (*convert)(ForeignObject* spec, const ConversionOptions& options);
};

// The first that fits.
constexpr std::array<ForeignKind, 6> kKinds = {{
    {"kubeflow.org/", "TFJob", ConvertTfJob},
    {"kubeflow.org/", "PyTorchJob", ConvertPyTorchJob},
    {"kubeflow.org/v2", "MPIJob", ConvertMpiJobWithJob},
    {"kubeflow.org/v1alpha2", "MPIJob", ConvertMpiJobWithJob},
    {"kubeflow.org/", "MPIJob", ConvertMpiJob},
    {"trainer.kubeflow.org/", "TrainJob", ConvertTrainJob},
}};

const ForeignKind* KindOf(const Json& document) {
  const Json version = MemberOf(document, "apiVersion");
  const Json kind = MemberOf(document, "kind");
  for (const ForeignKind& known : kKinds) {
    if (version.is_string() && version.get<std::string>().starts_with(known.group) &&
        kind == known.kind) {
      return &known;
    }
  }
  return nullptr;
}

std::string TextAt(const Json& object, const char* key) {
  const Json value = MemberOf(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

// Whether a text, such as one of a ConfigMap, has a manifest of such a job in it.
bool HoldsManifest(const std::string& text) {
  return text.find("kubeflow.org/v") != std::string::npos &&
         std::any_of(kKinds.begin(), kKinds.end(), [&](const ForeignKind& known) {
           return text.find("kind: " + std::string(known.kind)) != std::string::npos;
         });
}

// Where the first such job is in `value`, which stands at `path`; empty: nowhere.
std::string PathOfJob(const Json& value, const std::string& path) {
  if (KindOf(value) != nullptr ||
      (value.is_string() && HoldsManifest(value.get_ref<const std::string&>()))) {
    return path;
  }
  std::size_t index = 0;
  if (!value.is_structured()) {
    return "";
  }
  for (const auto& [key, inner] : value.items()) {
    const std::string at = value.is_array() ? path + "[" + std::to_string(index++) + "]"
                                            : path + (path.empty() ? "" : ".") + key;
    if (std::string found = PathOfJob(inner, at); !found.empty()) {
      return found;
    }
  }
  return "";
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
                          " is kept: the job waits until Kueue admits it; without kueue.enabled in "
                          "the operator's chart, the job waits forever");
      } else if (label.starts_with(kKueueLabels)) {
        metadata.Note(
            "labels",
            label + " is kept: with " + kKueueQueue + " the job waits until this label is removed");
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
  Json& spec = (*job)["spec"];
  const Json labels = MemberOf(job->at("metadata"), "labels");
  if (MemberOf(MemberOf(spec, "runPolicy"), "suspend") == true && labels.contains(kKueueQueue)) {
    spec["runPolicy"].erase("suspend");
    conversion->notes.push_back({ForeignField(*conversion, "spec.runPolicy.suspend"),
                                 "not kept: Kueue removed suspend when it admitted the job; in the "
                                 "TrainingJob, the label " +
                                     std::string(kKueueQueue) + " makes the job wait"});
  }
}

}  // namespace

bool IsForeignJob(const Json& document) {
  return KindOf(document) != nullptr;
}

bool IsForeignRuntime(const Json& document) {
  return TextAt(document, "apiVersion").starts_with(kTrainerGroup) &&
         TextAt(document, "kind").ends_with("TrainingRuntime");
}

OtherDocument DescribeOther(const Json& document) {
  const std::string kind = TextAt(document, "kind");
  const std::string group = TextAt(document, "apiVersion");
  if (document.is_null() || kind.empty()) {
    return {false,
            (document.is_null() ? "empty" : DescribeJson(document) + " found") +
                ", expected apiVersion and kind"};
  }
  if (IsForeignRuntime(document)) {
    return {false, "a " + kind + " is used only for the TrainJobs that name it"};
  }
  const std::string name = TextAt(MemberOf(document, "metadata"), "name");
  const std::string stays = "a document of kind " + kind + " is left as it is" +
                            (name.empty() ? "" : ", " + DescribeJson(name));
  const bool is_known_kind = std::any_of(
      kKinds.begin(), kKinds.end(), [&](const ForeignKind& known) { return known.kind == kind; });
  if (is_known_kind) {
    return {true, kind + " of " + group + " found, expected a " + ForeignKinds()};
  }
  if (const std::string path = PathOfJob(document, ""); !path.empty()) {
    return {true, stays + "; it holds a job at " + path + ": convert that job separately"};
  }
  if (kind.ends_with("Queue") && kind != kTrainingQueueKind) {
    return {false, stays + "; a TrainingJob waits in a TrainingQueue instead: create one"};
  }
  const bool is_theirs = group.starts_with(kJobGroup) || group.starts_with(kTrainerGroup);
  return {is_theirs && kind.ends_with("Job"), stays};
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
  if (TextAt(document, "apiVersion") == "kubeflow.org/v1alpha1") {
    foreign.Fail("apiVersion",
                 "kubeflow.org/v1alpha1 found, which has different fields, expected v1" +
                     std::string(kind->kind == "MPIJob" ? " or v2beta1" : ""));
    return conversion;
  }
  Json job = {{"apiVersion", std::string(kApiVersion)}, {"kind", std::string(kTrainingJobKind)}};
  job["metadata"] = ConvertMetadata(foreign.TakeObject("metadata"));
  ForeignObject spec = foreign.TakeObject("spec");
  job["spec"] = kind->convert(&spec, options);
  spec.Finish();
  foreign.Finish();
  StartSuspendedOfKueue(&job, &conversion);
  NoteKubeflowNames(MemberOf(document, "spec"), job, &conversion);
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

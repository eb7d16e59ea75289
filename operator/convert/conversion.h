#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/json/json.h"

namespace lockstep::control {

// What the user has to add to a manifest that relies on what is not in it.
struct ConversionOptions {
  std::string image;                 // of pods whose manifest names none
  std::vector<std::string> command;  // of pods whose manifest leaves it to the image
  std::vector<Json> runtimes{};      // TrainingRuntimes and ClusterTrainingRuntimes beside the jobs
};

// Something that the job could not keep, or keeps in another way.
struct ConversionNote {
  std::string field;  // of the foreign manifest: "spec.elasticPolicy.minReplicas"
  std::string text;
};

// Where a field of the job comes from that is called otherwise there.
struct FieldOrigin {
  std::string of_job;   // "spec.roles[0]"
  std::string foreign;  // "spec.tfReplicaSpecs.Worker"
};

struct Conversion {
  Json job;                           // a TrainingJob as written; null where there are errors
  std::vector<ConversionNote> notes;  // in the order in which the manifest was read
  std::vector<Error> errors;          // fields of the foreign manifest that stand in the way
  std::vector<FieldOrigin> origins;   // of fields, and of all that is in them
};

// Whether the document is of a kind that can be converted: TFJob, PyTorchJob and MPIJob of
// kubeflow.org, TrainJob of trainer.kubeflow.org.
bool IsForeignJob(const Json& document);

// Whether it is a TrainingRuntime or ClusterTrainingRuntime of trainer.kubeflow.org, which
// TrainJobs name.
bool IsForeignRuntime(const Json& document);

// A document that is no such job, and what there is to say of it.
struct OtherDocument {
  bool is_job = false;  // it is one of training, or holds one: it should have been converted
  std::string text;     // "a document of kind ConfigMap stays as it is, "c""
};

// Precondition: not IsForeignJob.
OtherDocument DescribeOther(const Json& document);

// "TFJob, PyTorchJob, MPIJob (kubeflow.org) or TrainJob (trainer.kubeflow.org)".
std::string ForeignKinds();

// Makes a TrainingJob of another operator's job. Every field of it is kept, or a note says what
// became of it. Whether the job is a good one is for the decoder to say: the program may rely on
// what was noted. Precondition (checked): IsForeignJob. Pure.
Conversion ConvertForeignJob(const Json& document, const ConversionOptions& options);

// The field of the foreign manifest that `field` was made of, by the nearest of the origins, the
// last of equals, or the one of the same name.
std::string ForeignField(const std::vector<FieldOrigin>& origins, const std::string& field);

// The same of a field of the job. It need not be there: a default has none.
std::string ForeignField(const Conversion& conversion, const std::string& field);

}  // namespace lockstep::control

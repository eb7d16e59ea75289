#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "operator/convert/foreign_object.h"
#include "operator/convert/launch_command.h"

namespace lockstep::control {

// A pod of a role on the way to its new template.
struct ConvertedPod {
  Json metadata = Json::object();  // labels and annotations
  Json spec = Json::object();      // with one container, the one that trains, and it first
  std::string container_path;      // of that container in the foreign manifest
  // Of fields of the role that are called otherwise there, by their path in the role.
  std::vector<FieldOrigin> origins = {};

  Json& container() { return spec["containers"][0]; }

  // Its field `key`; null where it is not there.
  Json OfContainer(const char* key) const;

  // GPUs that the container asks for.
  int64_t gpu_count() const;

  // What it asks for by names with a domain of their own, such as "amd.com/gpu", in their order.
  std::vector<std::pair<std::string, int64_t>> devices() const;

  // The claims on devices that it names.
  std::vector<std::string> claims() const;

  // Where a field of the role stands in the foreign manifest.
  std::string ForeignPathOf(const std::string& of_role) const;

  // {metadata, spec} as a role has it.
  Json ToTemplate() const;
};

// A role on the way, its pod, and what the pod's container starts.
struct ConvertedReplica {
  Json role;
  ConvertedPod pod;
  LaunchCommand command{};
};

// What becomes of the containers of a pod that do not train.
enum class OtherContainers { kSidecars, kGone };

// Takes the pod of `replica` ("template") over. The container called as one of `names` trains, or
// else the first; `others` says what the others become. Fields that the operator writes itself are
// left out, with a note where they said something.
ConvertedPod ConvertPod(ForeignObject* replica,
                        const std::vector<std::string>& names,
                        OtherContainers others = OtherContainers::kSidecars);

// The container's variables; empty where they are no list, which the job's decoder refuses.
Json VariablesOf(const ConvertedPod& pod);

// Where the variable `name` stands among them; their count: nowhere.
std::size_t IndexOfVariable(const std::string& name, const Json& variables);

// Takes those out of the container whose names `is_gone` says; `why` is noted behind each name.
void DropVariables(const std::function<bool(const std::string& name)>& is_gone,
                   const std::string& why,
                   ConvertedPod* pod,
                   Conversion* conversion);

// Whether the container names an image, of whatever type.
bool HasImage(const ConvertedPod& pod);

// Reads what the container starts; notes what becomes of mpirun or horovodrun. Options fill in an
// image and a command that are not there; without them it is an error. Of a command with a problem
// nothing else is told.
LaunchCommand ReadProgram(ConvertedPod* pod,
                          const ConversionOptions& options,
                          Conversion* conversion);

// The same, and puts the program that mpirun or horovodrun would start in the command's place. Any
// other command stays.
void ConvertProgram(ConvertedReplica* replica,
                    const ConversionOptions& options,
                    Conversion* conversion);

// Where the container that trains stands in a role.
inline constexpr const char* kContainerInRole = "template.spec.containers[0]";
std::string PathOfVariable(std::size_t index);

// The container of `pod` runs the program of `command`, which stands in `launcher`, as SetLaunched
// has it.
void SetProgram(const LaunchCommand& command,
                const ConvertedPod& launcher,
                ConvertedPod* pod,
                Conversion* conversion);

// Takes out of the container what a TrainingJob's manifest may not have: variables that Lockstep
// sets itself, which are noted, and fractions of cores without quotes.
void CleanContainer(ConvertedPod* pod, Conversion* conversion);

// Role `index` of the job is made of the object at `foreign`, and of `pod`.
void NoteOriginsOfRole(std::size_t index,
                       const std::string& foreign,
                       const ConvertedPod& pod,
                       Conversion* conversion);

}  // namespace lockstep::control

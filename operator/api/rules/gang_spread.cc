#include "operator/api/rules/gang_spread.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/contract/text/problems.h"
#include "operator/api/fields/fields.h"
#include "operator/api/fields/pod_label_names.h"

namespace lockstep::control {
namespace {

using Labels = std::map<std::string, std::string>;

// What selectors can know of a pod of the role before it is made.
Labels LabelsOfPods(const TrainingJob& job, const RoleSpec& role) {
  Labels labels;
  const Json::json_pointer where("/metadata/labels");
  if (role.pod.raw->contains(where) && role.pod.raw->at(where).is_object()) {
    for (const auto& [name, value] : role.pod.raw->at(where).items()) {
      labels[name] = value.is_string() ? value.get<std::string>() : "";
    }
  }
  labels[label::kJob] = job.metadata.name;
  labels[label::kRole] = RoleName(role.name);
  return labels;
}

bool Selects(const PodTerm& term, const Labels& labels) {
  return term.labels.empty() || MatchesAnyTerm({{term.labels, {}}}, "", labels);
}

// The rules of one kind.
class Kind {
 public:
  Kind(const TrainingJob& job, bool is_anti, std::vector<Error>* errors)
      : job_(job), is_anti_(is_anti), errors_(errors) {}

  // The label that all of them name; empty where there are none.
  std::string Key() {
    const PodTerm* first = nullptr;
    for (const RoleSpec& role : job_.spec.roles) {
      for (const PodTerm& term : role.pod.pod_terms) {
        if (term.is_anti == is_anti_) {
          first = first == nullptr ? &term : first;
          Check(term, *first);
        }
      }
    }
    if (first != nullptr) {
      CheckThatAllHaveIt(*first);
    }
    return first == nullptr ? "" : first->topology_key;
  }

 private:
  void Fail(const std::string& path, const std::string& message) {
    if (errors_ != nullptr) {
      AddError(errors_, path, message);
    }
  }

  void Check(const PodTerm& term, const PodTerm& first) {
    if (term.topology_key != first.topology_key) {
      Fail(term.path + ".topologyKey",
           Quoted(term.topology_key) + " found, and " + Quoted(first.topology_key) + " at " +
               first.path +
               ", but the whole gang can have only one topologyKey; use the same in all templates");
    }
    for (const RoleSpec& role : job_.spec.roles) {
      if (!Selects(term, LabelsOfPods(job_, role))) {
        Fail(term.path + ".labelSelector",
             "does not select the pods of role " + std::string(RoleName(role.name)) +
                 ", but the rule has to apply to all pods of the job; use a selector that selects "
                 "all of them, such as matchLabels: {" +
                 std::string(label::kJob) + ": " + job_.metadata.name + "}");
        return;
      }
    }
  }

  void CheckThatAllHaveIt(const PodTerm& first) {
    for (const RoleSpec& role : job_.spec.roles) {
      const auto& terms = role.pod.pod_terms;
      const bool has_it = std::any_of(terms.begin(), terms.end(), [&](const PodTerm& term) {
        return term.is_anti == is_anti_;
      });
      if (!has_it) {
        Fail(first.path,
             "found, but not in the template of role " + std::string(RoleName(role.name)) +
                 ", and the rule has to apply to the whole gang; put the rule into the templates "
                 "of all roles, or remove it");
        return;
      }
    }
  }

  const TrainingJob& job_;
  bool is_anti_;
  std::vector<Error>* errors_;
};

}  // namespace

GangSpread FindGangSpread(const TrainingJob& job, std::vector<Error>* errors) {
  GangSpread spread{Kind(job, false, errors).Key(), Kind(job, true, errors).Key()};
  const std::string& written = job.spec.scheduling.topology.required;
  if (errors != nullptr && !written.empty() && !spread.required.empty() &&
      written != spread.required) {
    AddError(errors,
             "spec.scheduling.topology.required",
             Quoted(written) + " found, and " + Quoted(spread.required) +
                 " in the templates' podAffinity; use the same value, or only one of the two");
  }
  if (!written.empty()) {
    spread.required = written;
  }
  return spread;
}

}  // namespace lockstep::control

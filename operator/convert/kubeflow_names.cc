#include "operator/convert/kubeflow_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>
#include <utility>

#include "common/json/json.h"
#include "operator/api/fields/pod_label_names.h"
#include "operator/convert/foreign_object.h"

namespace lockstep::control {
namespace {

constexpr std::array<std::string_view, 4> kLabelPrefixes = {"training.kubeflow.org/",
                                                            "trainer.kubeflow.org/",
                                                            "jobset.sigs.k8s.io/",
                                                            "batch.kubernetes.io/job-"};

// Theirs, and ours that says the same.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kOurLabels = {{
    {"training.kubeflow.org/job-name", label::kJob},
    {"training.kubeflow.org/replica-type", label::kRole},
    {"training.kubeflow.org/replica-index", label::kIndex},
    {"jobset.sigs.k8s.io/jobset-name", label::kJob},
    {"jobset.sigs.k8s.io/job-index", label::kIndex},
    {"batch.kubernetes.io/job-completion-index", label::kIndex},
}};

// Our label for one of theirs that every pod of ours has from its birth; empty: none.
std::string_view SelectedAs(std::string_view theirs) {
  const auto* const found = std::find_if(
      kOurLabels.begin(), kOurLabels.end(), [&](const auto& one) { return one.first == theirs; });
  const bool is_known = found != kOurLabels.end() && found->second != label::kIndex;
  return is_known ? found->second : std::string_view();
}

// The value that ours has where theirs has that one.
Json ValueAsOurs(std::string_view ours, const Json& value) {
  if (ours != label::kRole || !value.is_string()) {
    return value;
  }
  std::string role = value.get<std::string>();
  std::transform(role.begin(), role.end(), role.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return role == "master" ? "chief" : role;
}

// Visits the objects of the list under `key`, where there is one.
template <typename Visit>
void ForEachObject(Json* holder, const char* key, const Visit& visit) {
  if (!holder->is_object() || !holder->contains(key) || !(*holder)[key].is_array()) {
    return;
  }
  for (Json& one : (*holder)[key]) {
    if (one.is_object()) {
      visit(&one);
    }
  }
}

// The selector of one term, by our labels; `given` are the template's own.
void SelectByOurs(const Json& given, Json* selector, std::set<std::string>* renamed) {
  const auto ours_of = [&](const std::string& key) {
    return given.contains(key) ? std::string_view() : SelectedAs(key);
  };
  if (selector->contains("matchLabels") && (*selector)["matchLabels"].is_object()) {
    Json labels = Json::object();
    for (const auto& [key, value] : (*selector)["matchLabels"].items()) {
      const std::string_view ours = ours_of(key);
      labels[ours.empty() ? key : std::string(ours)] =
          ours.empty() ? value : ValueAsOurs(ours, value);
      if (!ours.empty()) {
        renamed->insert(key + " is " + std::string(ours) + " here");
      }
    }
    (*selector)["matchLabels"] = std::move(labels);
  }
  ForEachObject(selector, "matchExpressions", [&](Json* one) {
    const std::string key = TextOf(MemberOf(*one, "key"));
    const std::string_view ours = ours_of(key);
    if (ours.empty()) {
      return;
    }
    (*one)["key"] = ours;
    renamed->insert(key + " is " + std::string(ours) + " here");
    if (one->contains("values") && (*one)["values"].is_array()) {
      for (Json& value : (*one)["values"]) {
        value = ValueAsOurs(ours, value);
      }
    }
  });
}

bool IsOfName(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '-';
}

// The first of their labels that `text` names; empty: none.
std::string_view LabelIn(std::string_view text) {
  for (const std::string_view prefix : kLabelPrefixes) {
    const std::size_t at = text.find(prefix);
    if (at != std::string_view::npos) {
      const std::string_view rest = text.substr(at);
      const auto end = std::find_if(rest.begin(), rest.end(), [](char letter) {
        return !IsOfName(letter) && letter != '/' && letter != '.' && letter != '_';
      });
      return rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
    }
  }
  return {};
}

// The role and index that `rest` begins with, behind "JOB-": "worker-0"; empty: none.
std::string_view PodAtFront(std::string_view rest) {
  constexpr std::array<std::string_view, 7> kTypes = {
      "master-", "chief-", "worker-", "ps-", "evaluator-", "node-", "launcher"};
  for (const std::string_view type : kTypes) {
    if (rest.starts_with(type)) {
      const auto end = std::find_if_not(rest.begin(), rest.end(), IsOfName);
      return rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
    }
  }
  return {};
}

// The first of their hosts that `text` names by a name that our pods have not; empty: none.
std::string HostIn(std::string_view text, const std::string& job_name) {
  const std::string begin = job_name + "-";
  for (std::size_t at = text.find(begin); at != std::string_view::npos;
       at = text.find(begin, at + 1)) {
    if (at > 0 && (IsOfName(text[at - 1]) || text[at - 1] == '.')) {
      continue;
    }
    const std::string_view pod = PodAtFront(text.substr(at + begin.size()));
    const std::string_view behind = text.substr(at + begin.size() + pod.size());
    const bool is_ours = (pod.starts_with("worker-") || pod.starts_with("chief-") ||
                          pod.starts_with("ps-") || pod.starts_with("evaluator-")) &&
                         behind.starts_with("." + job_name);
    if (!pod.empty() && !is_ours) {
      return begin + std::string(pod);
    }
  }
  return {};
}

class Names {
 public:
  Names(std::string job_name, std::string kept, Conversion* conversion)
      : job_name_(std::move(job_name)), kept_(std::move(kept)), conversion_(conversion) {}

  // Labels that the manifest itself gives its pods stay good.
  void Collect(const Json& value) {
    const Json labels = MemberOf(MemberOf(value, "metadata"), "labels");
    if (labels.is_object()) {
      for (const auto& [key, one] : labels.items()) {
        given_.insert(key);
      }
    }
    for (const Json& inner : value) {
      if (inner.is_structured()) {
        Collect(inner);
      }
    }
  }

  // `path` is that of `value`; `may_be_host`: it is one of what programs read.
  void Note(const Json& value, const std::string& path, bool may_be_host) {
    if (value.is_string()) {
      NoteText(value.get_ref<const std::string&>(), path, may_be_host);
    } else if (value.is_array()) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        Note(value[i], path + "[" + std::to_string(i) + "]", may_be_host);
      }
    } else if (value.is_object()) {
      for (const auto& [key, inner] : value.items()) {
        if (key == "metadata" || key == "managedBy") {
          continue;
        }
        NoteLabel(key, path);
        const bool is_read = key == "env" || key == "command" || key == "args";
        Note(inner, path + "." + key, may_be_host || is_read);
      }
    }
  }

 private:
  void NoteText(const std::string& text, const std::string& path, bool may_be_host) {
    NoteLabel(text, path);
    const std::string host = may_be_host && !job_name_.empty() ? HostIn(text, job_name_) : "";
    if (!host.empty() && IsKept(host)) {
      conversion_->notes.push_back(
          {path,
           host + " is a host name of Kubeflow: a pod of Lockstep has the address " + job_name_ +
               "-ROLE-INDEX." + job_name_ + ", and MASTER_ADDR has the address of rank 0"});
    }
  }

  void NoteLabel(const std::string& text, const std::string& path) {
    const std::string_view name = LabelIn(text);
    if (name.empty() || given_.contains(name) || !IsKept(name)) {
      return;
    }
    const auto* const ours = std::find_if(
        kOurLabels.begin(), kOurLabels.end(), [&](const auto& one) { return one.first == name; });
    conversion_->notes.push_back(
        {path,
         std::string(name) + " is a label that Kubeflow sets on its pods, but Lockstep does not" +
             (ours == kOurLabels.end() ? "" : ": use " + std::string(ours->second))});
  }

  bool IsKept(std::string_view name) const { return kept_.find(name) != std::string::npos; }

  std::string job_name_;
  std::string kept_;  // the job's spec, as text
  Conversion* conversion_;
  std::set<std::string, std::less<>> given_;
};

}  // namespace

void SelectByOurLabels(const Json& metadata,
                       const std::string& path,
                       Json* pod_spec,
                       Conversion* conversion) {
  const Json given = MemberOf(metadata, "labels");
  std::set<std::string> renamed;
  const auto visit = [&](Json* term) {
    if (term->contains("labelSelector") && (*term)["labelSelector"].is_object()) {
      SelectByOurs(given, &(*term)["labelSelector"], &renamed);
    }
  };
  for (const char* const kind : {"podAffinity", "podAntiAffinity"}) {
    const Json::json_pointer where(std::string("/affinity/") + kind);
    if (!pod_spec->contains(where)) {
      continue;
    }
    Json* const about = &pod_spec->at(where);
    ForEachObject(about, "requiredDuringSchedulingIgnoredDuringExecution", visit);
    ForEachObject(about, "preferredDuringSchedulingIgnoredDuringExecution", [&](Json* preferred) {
      if (preferred->contains("podAffinityTerm") && (*preferred)["podAffinityTerm"].is_object()) {
        visit(&(*preferred)["podAffinityTerm"]);
      }
    });
  }
  for (const std::string& one : renamed) {
    conversion->notes.push_back({path, one});
  }
}

void NoteKubeflowNames(const Json& spec, const Json& job, Conversion* conversion) {
  const Json name = MemberOf(job.at("metadata"), "name");
  Names names(
      name.is_string() ? name.get<std::string>() : "", DumpJson(job.at("spec")), conversion);
  names.Collect(spec);
  names.Note(spec, "spec", false);
}

}  // namespace lockstep::control

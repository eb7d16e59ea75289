#include "operator/convert/pod_patch.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep::control {
namespace {

struct NamedList {
  std::string_view field;
  std::string_view name;  // of the member by which its elements are one
};

// Source: the patch strategies of k8s.io/api/core/v1, of what Kubeflow lets patches have.
constexpr std::array<NamedList, 5> kNamedLists = {{{"env", "name"},
                                                   {"volumeMounts", "mountPath"},
                                                   {"volumes", "name"},
                                                   {"imagePullSecrets", "name"},
                                                   {"schedulingGates", "name"}}};

class Patcher {
 public:
  Patcher(ConvertedPod* pod, Conversion* conversion) : pod_(pod), conversion_(conversion) {}

  // The member `key` of `parent`, at `of_role`, takes what `patch` says, at `foreign`.
  void Merge(const std::string& key,
             const Json& patch,
             const std::string& of_role,
             const std::string& foreign,
             Json* parent) {
    if (patch.is_null() || (patch.is_structured() && patch.empty())) {
      return;  // Kubeflow's operator leaves it out
    }
    Json& target = (*parent)[key];
    const auto* const list = std::find_if(
        kNamedLists.begin(), kNamedLists.end(), [&](const auto& one) { return one.field == key; });
    if (target.is_null()) {
      Put(patch, of_role, foreign, &target);
    } else if (target.is_object() && patch.is_object()) {
      for (const auto& [name, inner] : patch.items()) {
        Merge(name, inner, of_role + "." + name, foreign + "." + name, &target);
      }
    } else if (target.is_array() && patch.is_array() && list != kNamedLists.end()) {
      MergeList(list->name, patch, of_role, foreign, &target);
    } else {
      Replace(patch, of_role, foreign, &target);
    }
  }

 private:
  void MergeList(std::string_view name,
                 const Json& patch,
                 const std::string& of_role,
                 const std::string& foreign,
                 Json* target) {
    for (std::size_t i = 0; i < patch.size(); ++i) {
      const Json& one = patch[i];
      const Json wanted = MemberOf(one, std::string(name));
      const auto same = std::find_if(target->begin(), target->end(), [&](const Json& other) {
        return !wanted.is_null() && MemberOf(other, std::string(name)) == wanted;
      });
      const bool is_new = same == target->end();
      const std::string at = "[" + std::to_string(same - target->begin()) + "]";
      const std::string from = foreign + "[" + std::to_string(i) + "]";
      if (is_new) {
        target->push_back(Json());
        Put(one, of_role + at, from, &target->back());
      } else {
        // Whole: of two sources of a variable or a volume, say, one is too many.
        Replace(one, of_role + at, from, &*same);
      }
    }
  }

  void Replace(const Json& patch,
               const std::string& of_role,
               const std::string& foreign,
               Json* target) {
    if (*target != patch) {
      conversion_->notes.push_back(
          {pod_->ForeignPathOf(of_role), "not kept: " + foreign + " replaces it"});
      Put(patch, of_role, foreign, target);
    }
  }

  void Put(const Json& patch,
           const std::string& of_role,
           const std::string& foreign,
           Json* target) {
    *target = patch;
    pod_->origins.push_back({of_role, foreign});
  }

  ConvertedPod* pod_;
  Conversion* conversion_;
};

}  // namespace

void ApplyPatch(ForeignObject* patch, const std::string& of_role, Json* target, ConvertedPod* pod) {
  Patcher patcher(pod, patch->conversion());
  for (const std::string& key : patch->Rest()) {
    patcher.Merge(key, *patch->Take(key), of_role + "." + key, patch->PathOf(key), target);
  }
}

}  // namespace lockstep::control

#include "operator/reconcile/pods/template_path.h"

#include <cctype>
#include <charconv>
#include <cstddef>
#include <optional>

namespace lockstep::control {
namespace {

constexpr std::string_view kRoot = "spec";

const Json* Field(const Json* object, std::string_view name) {
  if (object == nullptr || !object->is_object()) {
    return nullptr;
  }
  const auto found = object->find(std::string(name));
  return found == object->end() ? nullptr : &*found;
}

const Json* Element(const Json* list, std::size_t index) {
  const bool is_there = list != nullptr && list->is_array() && index < list->size();
  return is_there ? &(*list)[index] : nullptr;
}

// A place in the pod, and the same one in its template; null: there is none.
struct Place {
  const Json* made = nullptr;
  const Json* written = nullptr;
};

// Which element of the template's list became the pod's: that of the same name, or in a list
// without names that of the same index. Null: none, it was added.
std::optional<std::size_t> IndexInTemplate(const Place& list, std::size_t index) {
  const Json* const name = Field(Element(list.made, index), "name");
  if (name == nullptr) {
    return Element(list.written, index) == nullptr ? std::nullopt : std::optional(index);
  }
  for (std::size_t i = 0; Element(list.written, i) != nullptr; ++i) {
    const Json* const other = Field(Element(list.written, i), "name");
    if (other != nullptr && *other == *name) {
      return i;
    }
  }
  return std::nullopt;
}

// `path` begins with "spec". Null where it leads to what the template does not say.
std::optional<std::string> PathInTemplate(std::string_view path, Place place) {
  std::string text(kRoot);
  std::string_view rest = path.substr(kRoot.size());
  while (!rest.empty()) {
    const bool is_index = rest.front() == '[';
    const std::size_t end = is_index ? rest.find(']') : rest.find_first_of(".[", 1);
    const std::string_view step = rest.substr(1, end == rest.npos ? end : end - 1);
    rest.remove_prefix(end == rest.npos ? rest.size() : end + (is_index ? 1 : 0));
    std::size_t index = 0;
    const auto [stop, problem] = std::from_chars(step.data(), step.data() + step.size(), index);
    if (!is_index || problem != std::errc() || stop != step.data() + step.size()) {
      const Place next = {Field(place.made, step), Field(place.written, step)};
      if (next.made != nullptr && next.written == nullptr) {
        return std::nullopt;
      }
      text += is_index ? "[" + std::string(step) + "]" : "." + std::string(step);
      place = next;
      continue;
    }
    const auto own = IndexInTemplate(place, index);
    if (!own.has_value()) {
      return std::nullopt;
    }
    text += "[" + std::to_string(*own) + "]";
    place = {Element(place.made, index), Element(place.written, *own)};
  }
  return text;
}

bool IsOfPath(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '[' || c == ']';
}

}  // namespace

std::string InTermsOfTemplate(std::string_view words,
                              const Json& pod_manifest,
                              const TrainingJob& job,
                              Role role) {
  std::size_t index = 0;
  while (index < job.spec.roles.size() && job.spec.roles[index].name != role) {
    ++index;
  }
  if (index == job.spec.roles.size()) {
    return std::string(words);
  }
  const Place root = {Field(&pod_manifest, kRoot), Field(&*job.spec.roles[index].pod.raw, kRoot)};
  const std::string prefix = "spec.roles[" + std::to_string(index) + "].template.";
  std::string text;
  for (std::size_t at = 0; at < words.size();) {
    std::size_t end = at;
    while (end < words.size() && IsOfPath(words[end]) && (end > at || words[end] != '[')) {
      ++end;
    }
    const std::string_view word = words.substr(at, end - at);
    const auto own =
        word.starts_with("spec.") ? PathInTemplate(word, root) : std::optional<std::string>();
    text += own.has_value() ? prefix + *own : std::string(word);
    if (end < words.size()) {
      text += words[end];
    }
    at = end + 1;
  }
  return text;
}

}  // namespace lockstep::control

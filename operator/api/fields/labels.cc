#include "operator/api/fields/labels.h"

#include <algorithm>
#include <cctype>

#include "common/contract/text/problems.h"
#include "operator/api/fields/fields.h"

namespace lockstep::control {
namespace {

bool IsLetterOrDigit(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

bool IsLowerOrDigit(char c) {
  return IsLetterOrDigit(c) && std::isupper(static_cast<unsigned char>(c)) == 0;
}

// The locale of a program that sets none is "C": these are the letters of ASCII.
std::string InLowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return text;
}

std::string NoKey(const std::string& key) {
  return Quoted(key) +
         " found as a key, expected at most 63 letters, digits, '-', '_' and '.', beginning and "
         "ending with a letter or digit; a DNS name and '/' may come before";
}

}  // namespace

bool IsDnsName(std::string_view text) {
  if (text.empty() || text.size() > kLabelPrefixMax) {
    return false;
  }
  while (true) {
    const std::string_view part = text.substr(0, text.find('.'));
    if (part.empty() || !IsLowerOrDigit(part.front()) || !IsLowerOrDigit(part.back()) ||
        !std::all_of(
            part.begin(), part.end(), [](char c) { return IsLowerOrDigit(c) || c == '-'; })) {
      return false;
    }
    if (part.size() == text.size()) {
      return true;
    }
    text.remove_prefix(part.size() + 1);
  }
}

bool IsLabelValue(std::string_view text) {
  return text.empty() ||
         (text.size() <= kLabelNameMax && IsLetterOrDigit(text.front()) &&
          IsLetterOrDigit(text.back()) && std::all_of(text.begin(), text.end(), [](char c) {
            return IsLetterOrDigit(c) || c == '-' || c == '_' || c == '.';
          }));
}

bool IsLabelKey(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    return !text.empty() && IsLabelValue(text);
  }
  const std::string_view name = text.substr(slash + 1);
  return IsDnsName(text.substr(0, slash)) && !name.empty() && IsLabelValue(name);
}

std::map<std::string, std::string> ReadLabels(ObjectReader& reader,
                                              std::string_view key,
                                              std::vector<Error>* errors) {
  const std::map<std::string, std::string> labels = ReadTextMap(reader, key, errors);
  for (const auto& [name, value] : labels) {
    const std::string field = reader.PathOf(key) + "." + name;
    if (!IsLabelKey(name)) {
      AddError(errors, field, NoKey(name));
    } else if (!IsLabelValue(value)) {
      AddError(errors,
               field,
               Quoted(value) +
                   " found, expected at most 63 letters, digits, '-', '_' and '.', beginning and "
                   "ending with a letter or digit");
    }
  }
  return labels;
}

std::map<std::string, std::string> ReadAnnotations(ObjectReader& reader,
                                                   std::string_view key,
                                                   std::vector<Error>* errors) {
  const std::map<std::string, std::string> annotations = ReadTextMap(reader, key, errors);
  std::size_t bytes = 0;
  for (const auto& [name, value] : annotations) {
    bytes += name.size() + value.size();
    if (!IsLabelKey(InLowerCase(name))) {
      AddError(errors, reader.PathOf(key) + "." + name, NoKey(name));
    }
  }
  if (bytes > kAnnotationBytesMax) {
    reader.Fail(key, TooMany(bytes, "bytes", kAnnotationBytesMax));
  }
  return annotations;
}

}  // namespace lockstep::control

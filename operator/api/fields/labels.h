#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/json/json.h"

namespace lockstep::control {

// Keys and values of labels and annotations, by the API server's own rules: it refuses the pods of
// a template that breaks them, one by one, after the job was taken.
// Source: Kubernetes' IsQualifiedName, IsValidLabelValue and ValidateAnnotationsSize.

inline constexpr std::size_t kLabelNameMax = 63;     // of a key, and a label's value
inline constexpr std::size_t kLabelPrefixMax = 253;  // of a key, before its '/'
inline constexpr std::size_t kAnnotationBytesMax = 256
                                                   << 10;  // of all keys and values of an object

// Whether `text` is a label's value: empty, or letters, digits, '-', '_' and '.', a letter or digit
// first and last, at most 63 characters.
bool IsLabelValue(std::string_view text);

// Whether `text` is a label's key: as a value that is not empty, and where a '/' stands in it a DNS
// name in lower case before that.
bool IsLabelKey(std::string_view text);

// Whether `text` is a DNS name by RFC 1123, as Kubernetes has them: parts of lower-case letters,
// digits and '-' with dots between, none of which begins or ends with '-', at most 253 characters.
bool IsDnsName(std::string_view text);

// The labels under `key`; empty when absent. Those that break the rules are recorded.
std::map<std::string, std::string> ReadLabels(ObjectReader& reader,
                                              std::string_view key,
                                              std::vector<Error>* errors);

// As ReadLabels: values are any text, but in all there is a limit, and case does not matter in the
// prefix of a key.
std::map<std::string, std::string> ReadAnnotations(ObjectReader& reader,
                                                   std::string_view key,
                                                   std::vector<Error>* errors);

}  // namespace lockstep::control

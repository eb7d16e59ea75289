#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/json/json.h"

namespace lockstep::control {

// What all nodes of one text, and the paths they are found by, may weigh once aliases are expanded.
// Units: bytes, estimated.
// Choice: sixteen times the largest manifest; a chain of aliases that doubles ends here.
inline constexpr std::size_t kYamlExpandedBytesMax = 16 * 1024 * 1024;

// A place in a text. Both count from 1; 0: unknown.
struct TextPosition {
  int line = 0;
  int column = 0;

  friend bool operator==(const TextPosition&, const TextPosition&) = default;
};

struct TextProblem {
  TextPosition at;
  std::string field;  // path of the field at fault; empty for syntax
  std::string message;
};

// Where fields stand, by their path ("spec.roles[0].replicas").
class FieldPositions {
 public:
  void Set(const std::string& path, TextPosition position) { positions_[path] = position; }

  // The position of the field, or of the nearest field around it; unknown if there is none.
  TextPosition Find(std::string_view path) const;

  // Those of the fields below `path`, as they are called there.
  FieldPositions Below(const std::string& path) const;

 private:
  std::map<std::string, TextPosition, std::less<>> positions_;
};

struct YamlDocument {
  Json value;
  TextPosition start;
  FieldPositions positions;
  std::string item{};  // "items[2]" of a list's document, "items[2].items[0]" of one in that
};

struct YamlStream {
  std::vector<YamlDocument> documents;  // those before a syntax error; empty documents are left out
  std::vector<TextProblem> problems;
};

// Reads YAML into JSON values as kubectl does: plain scalars, keys too, mean what
// ResolvePlainScalar says; quoted ones are strings.
// Anchors, aliases and merge keys (<<) are expanded. Problems: syntax (ends the reading), duplicate
// keys (the first value stays), keys that are not text, tags other than the core ones, numbers JSON
// cannot hold, control characters, bytes that are not UTF-8, nesting above kJsonDepthMax, more
// than kYamlExpandedBytesMax. Never throws. Source: yaml-cpp's event interface.
YamlStream ReadYaml(std::string_view text);

// With the items of each list, as `kubectl get` prints several objects (a kind that ends with
// "List" and `items`), in its place; lists may hold lists.
std::vector<YamlDocument> WithoutLists(std::vector<YamlDocument> documents);

// A plain scalar's value as kubectl reads it, which is YAML 1.1 for the most part: yes, on and y
// are true, 0400 is 256, 1_000 is 1000 and 1e3 too; a string if it is nothing else, 1:30 and dates
// included. .inf and .nan, which JSON cannot hold, come back as doubles that are not finite.
// Source: goyaml.v2/resolve.go of sigs.k8s.io/yaml, and Go's JSON of what it gives.
Json ResolvePlainScalar(const std::string& text);

}  // namespace lockstep::control

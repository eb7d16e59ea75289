#pragma once

#include <cstdint>
#include <map>
#include <simdjson.h>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/result.h"

// Reads JSON in one pass, field by field, without building a tree: for the decoders of this folder
// only. Inside a visit, failures travel as exceptions of this header; ScanObject turns them into
// an Error.
// Source: simdjson's On-Demand API.
namespace lockstep::control::kube::scan {

using Value = simdjson::ondemand::value;

// What is wrong, and where: the path grows on the way out.
struct Problem {
  std::string path;
  std::string what;
};

[[noreturn]] void FailType(simdjson::error_code code, std::string_view expected);

// Calls `visit(key, value)` for each field. null is an object without fields. A value that is not
// read is skipped.
template <typename Visit>
void ForEachField(Value value, const Visit& visit);

// Calls `visit(value)` for each element. null is a list without elements.
template <typename Visit>
void ForEachElement(Value value, const Visit& visit);

bool IsNull(Value value);

// The value as that type; null as an empty text, false and 0.
std::string_view Text(Value value);  // valid as long as the document
bool Flag(Value value);
int64_t Integer(Value value);

// A map of texts, of which only the keys that begin with `prefix` are kept.
std::map<std::string, std::string> TextMap(Value value, std::string_view prefix = "");

// The bytes of the value, an object, as they stand in the document.
std::string_view RawObject(Value value);

// The same of a list; empty when it is none.
std::string_view RawList(Value value);

namespace internal {

// Runs one visit and notes where in the document a problem was.
template <typename Visit>
void VisitAt(std::string_view place, const Visit& visit) {
  try {
    visit();
  } catch (const simdjson::simdjson_error& error) {
    throw Problem{std::string(place), simdjson::error_message(error.error())};
  } catch (Problem& problem) {
    const bool is_index = problem.path.starts_with('[');
    problem.path =
        std::string(place) + (problem.path.empty() || is_index ? "" : ".") + problem.path;
    throw;
  }
}

template <typename Object, typename Visit>
void VisitFields(Object object, const Visit& visit) {
  for (auto field : object) {
    const std::string_view key = field.unescaped_key();
    VisitAt(key, [&] { visit(key, Value(field.value())); });
  }
}

Error ToError(const Problem& problem);

// A copy of the text, ready to be read, in memory that this thread keeps for the next one: valid
// until then. To get that memory anew costs more than to read a pod.
simdjson::ondemand::document Open(std::string_view json);

}  // namespace internal

template <typename Visit>
void ForEachField(Value value, const Visit& visit) {
  if (IsNull(value)) {
    return;
  }
  simdjson::ondemand::object object;
  if (const auto code = value.get_object().get(object); code != simdjson::SUCCESS) {
    FailType(code, "an object");
  }
  internal::VisitFields(object, visit);
}

template <typename Visit>
void ForEachElement(Value value, const Visit& visit) {
  if (IsNull(value)) {
    return;
  }
  simdjson::ondemand::array array;
  if (const auto code = value.get_array().get(array); code != simdjson::SUCCESS) {
    FailType(code, "a list");
  }
  int index = 0;
  for (auto element : array) {
    internal::VisitAt("[" + std::to_string(index++) + "]", [&] { visit(Value(element.value())); });
  }
}

// Calls `visit(key, value)` for each field of the document, an object. Views into the document
// are valid during this call only, and a visit opens no other document.
// Errors: kCorrupt (not a JSON object, or a problem of the visit, with its path).
template <typename Visit>
Status ScanObject(std::string_view json, const Visit& visit) {
  try {
    simdjson::ondemand::document document = internal::Open(json);
    internal::VisitFields(document.get_object().value(), visit);
    // simdjson has no other word for "nothing follows".
    const bool is_at_end = document.current_location().error() == simdjson::OUT_OF_BOUNDS;
    return is_at_end ? OkStatus()
                     : Error(ErrorCode::kCorrupt, "more text after the end of the object");
  } catch (const simdjson::simdjson_error& error) {
    return Error(ErrorCode::kCorrupt, simdjson::error_message(error.error()));
  } catch (const Problem& problem) {
    return internal::ToError(problem);
  }
}

}  // namespace lockstep::control::kube::scan

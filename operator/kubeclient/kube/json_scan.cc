#include "operator/kubeclient/kube/json_scan.h"

namespace lockstep::control::kube::scan {

void FailType(simdjson::error_code code, std::string_view expected) {
  if (code == simdjson::INCORRECT_TYPE) {
    throw Problem{"", "is not " + std::string(expected)};
  }
  throw simdjson::simdjson_error(code);
}

bool IsNull(Value value) {
  return value.is_null().value();
}

std::string_view Text(Value value) {
  if (IsNull(value)) {
    return {};
  }
  std::string_view text;
  if (const auto code = value.get_string().get(text); code != simdjson::SUCCESS) {
    FailType(code, "a text");
  }
  return text;
}

bool Flag(Value value) {
  bool flag = false;
  if (IsNull(value)) {
    return false;
  }
  if (const auto code = value.get_bool().get(flag); code != simdjson::SUCCESS) {
    FailType(code, "true or false");
  }
  return flag;
}

int64_t Integer(Value value) {
  int64_t number = 0;
  if (IsNull(value)) {
    return 0;
  }
  if (const auto code = value.get_int64().get(number); code != simdjson::SUCCESS) {
    FailType(code, "a whole number");
  }
  return number;
}

std::map<std::string, std::string> TextMap(Value value, std::string_view prefix) {
  std::map<std::string, std::string> texts;
  ForEachField(value, [&](std::string_view key, Value text) {
    if (key.starts_with(prefix)) {
      texts[std::string(key)] = std::string(Text(text));
    }
  });
  return texts;
}

std::string_view RawObject(Value value) {
  simdjson::ondemand::object object;
  if (const auto code = value.get_object().get(object); code != simdjson::SUCCESS) {
    FailType(code, "an object");
  }
  return object.raw_json().value();
}

std::string_view RawList(Value value) {
  simdjson::ondemand::array array;
  if (value.get_array().get(array) != simdjson::SUCCESS) {
    return {};
  }
  return array.raw_json().value();
}

simdjson::ondemand::document internal::Open(std::string_view json) {
  thread_local simdjson::ondemand::parser parser;
  thread_local std::string copy;
  copy.reserve(json.size() + simdjson::SIMDJSON_PADDING);
  copy.assign(json);
  return parser.iterate(copy.data(), copy.size(), copy.capacity()).value();
}

Error internal::ToError(const Problem& problem) {
  return Error(ErrorCode::kCorrupt, problem.what).WithField(problem.path);
}

}  // namespace lockstep::control::kube::scan

#include "operator/convert/foreign_object.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::control {

Json MemberOf(const Json& object, const std::string& key) {
  return object.is_object() ? object.value(key, Json()) : Json();
}

std::string TextOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : DumpJson(value);
}

ForeignObject::ForeignObject(const Json* value, std::string path, Conversion* conversion)
    : path_(std::move(path)), conversion_(conversion) {
  if (value == nullptr || value->is_null()) {
    return;
  }
  if (value->is_object()) {
    object_ = value;
  } else {
    conversion_->errors.push_back(
        Error(ErrorCode::kInvalidArgument, DescribeJson(*value) + " found, expected an object")
            .WithField(path_));
  }
}

const Json* ForeignObject::Take(std::string_view key) {
  if (object_ == nullptr) {
    return nullptr;
  }
  const auto found = object_->find(key);
  taken_.emplace(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

ForeignObject ForeignObject::TakeObject(std::string_view key) {
  return ForeignObject(Take(key), PathOf(key), conversion_);
}

std::vector<ForeignObject> ForeignObject::TakeObjects(std::string_view key) {
  std::vector<ForeignObject> objects;
  const Json* const value = Take(key);
  if (value != nullptr && !value->is_array()) {
    Fail(key, DescribeJson(*value) + " found, expected a list of objects");
  } else if (value != nullptr) {
    for (std::size_t i = 0; i < value->size(); ++i) {
      objects.emplace_back(&(*value)[i], PathOf(key) + "[" + std::to_string(i) + "]", conversion_);
    }
  }
  return objects;
}

std::optional<std::string> ForeignObject::TakeText(std::string_view key) {
  const Json* const value = Take(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_string()) {
    Fail(key, DescribeJson(*value) + " found, expected a string");
    return std::nullopt;
  }
  return value->get<std::string>();
}

std::optional<int64_t> ForeignObject::TakeCount(std::string_view key) {
  const Json* const value = Take(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_number_integer() || *value < 0) {
    Fail(key, DescribeJson(*value) + " found, expected a whole number from 0");
    return std::nullopt;
  }
  return value->get<int64_t>();
}

std::vector<std::string> ForeignObject::TakeWords(std::string_view key) {
  std::vector<std::string> words;
  const Json* const value = Take(key);
  if (value == nullptr) {
    return words;
  }
  for (const Json& word : value->is_array() ? *value : Json::array({*value})) {
    if (word.is_string()) {
      words.push_back(word.get<std::string>());
    } else {
      Fail(key, DescribeJson(word) + " found, expected a list of strings");
    }
  }
  return words;
}

void ForeignObject::Drop(std::string_view key, std::string text) {
  if (Take(key) != nullptr) {
    Note(key, std::move(text));
  }
}

void ForeignObject::Copy(std::string_view key, Json* to) {
  CopyAs(key, key, to);
}

void ForeignObject::CopyAs(std::string_view key, std::string_view other, Json* to) {
  if (const Json* const value = Take(key)) {
    (*to)[std::string(other)] = *value;
  }
}

void ForeignObject::NoteOrigin(std::string_view key, std::string of_job) {
  if (Take(key) != nullptr) {
    conversion_->origins.push_back({std::move(of_job), PathOf(key)});
  }
}

void ForeignObject::Note(std::string_view key, std::string text) {
  conversion_->notes.push_back({PathOf(key), std::move(text)});
}

void ForeignObject::Fail(std::string_view key, std::string text) {
  conversion_->errors.push_back(
      Error(ErrorCode::kInvalidArgument, std::move(text)).WithField(PathOf(key)));
}

void ForeignObject::Finish() {
  for (const std::string& key : Rest()) {
    constexpr std::array<std::string_view, 4> kOfRunPolicy = {
        "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "suspend"};
    const bool is_of_run_policy =
        std::find(kOfRunPolicy.begin(), kOfRunPolicy.end(), key) != kOfRunPolicy.end();
    Note(key,
         is_of_run_policy
             ? "not kept: this field belongs in runPolicy; set runPolicy." + key + " of the job"
             : "not kept: a TrainingJob has no such field");
  }
}

std::vector<std::string> ForeignObject::Rest() const {
  std::vector<std::string> rest;
  if (object_ != nullptr) {
    for (const auto& [key, value] : object_->items()) {
      if (!value.is_null() && !taken_.contains(key)) {
        rest.push_back(key);
      }
    }
  }
  return rest;
}

std::string ForeignObject::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

}  // namespace lockstep::control

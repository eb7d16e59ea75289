#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/json/json.h"
#include "operator/round_log/field_lists.h"

namespace lockstep::control {

// Writes and reads what field_lists.h lists. Maps are lists of pairs: an object of many members is
// slow, and JSON from outside has few. Times are whole units of their own since the epoch.
template <typename T>
Json EncodeField(const T& value);

template <typename T>
Json EncodeMembers(const T& value) {
  Json object = Json::object();
  const T empty{};
  EachField(static_cast<const T*>(nullptr), [&](const char* name, auto member) {
    if (!(value.*member == empty.*member)) {
      object[name] = EncodeField(value.*member);
    }
  });
  return object;
}

template <typename T>
struct FieldTraits {
  static Json Encode(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      return WordsOf(static_cast<const T*>(nullptr)).at(static_cast<std::size_t>(value));
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      return value;
    } else {
      return EncodeMembers(value);
    }
  }

  // Errors: kCorrupt with the path.
  static Status Decode(const Json& json, const std::string& path, T* value);
};

inline Error WrongField(const Json& json, const std::string& path, const std::string& expected) {
  return Error(ErrorCode::kCorrupt, DescribeJson(json) + " found, expected " + expected)
      .WithField(path);
}

template <typename T>
Status DecodeMembers(const Json& json, const std::string& path, T* value) {
  if (!json.is_object()) {
    return WrongField(json, path, "an object");
  }
  std::set<std::string> unknown;
  for (const auto& [name, member] : json.items()) {
    unknown.insert(name);
  }
  Status status = OkStatus();
  EachField(static_cast<const T*>(nullptr), [&](const char* name, auto member) {
    const auto found = json.find(name);
    if (found == json.end() || !status.ok()) {
      return;
    }
    unknown.erase(name);
    using Member = std::remove_reference_t<decltype(value->*member)>;
    status = FieldTraits<Member>::Decode(*found, path + "." + name, &(value->*member));
  });
  LOCKSTEP_RETURN_IF_ERROR(status);
  return unknown.empty() ? OkStatus()
                         : Status(Error(ErrorCode::kCorrupt, "unknown field")
                                      .WithField(path + "." + *unknown.begin()));
}

template <typename T>
Status FieldTraits<T>::Decode(const Json& json, const std::string& path, T* value) {
  if constexpr (std::is_enum_v<T>) {
    const Words words = WordsOf(static_cast<const T*>(nullptr));
    for (std::size_t i = 0; json.is_string() && i < words.size(); ++i) {
      if (json.get<std::string>() == words[i]) {
        *value = static_cast<T>(i);
        return OkStatus();
      }
    }
    return WrongField(json, path, "one of the allowed words");
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!json.is_string()) {
      return WrongField(json, path, "a string");
    }
    *value = json.get<std::string>();
    return OkStatus();
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) {
      return WrongField(json, path, "true or false");
    }
    *value = json.get<bool>();
    return OkStatus();
  } else if constexpr (std::is_integral_v<T>) {
    if (!json.is_number_integer() || (std::is_unsigned_v<T> && !json.is_number_unsigned())) {
      return WrongField(json, path, "a whole number");
    }
    *value = json.get<T>();
    return OkStatus();
  } else {
    return DecodeMembers(json, path, value);
  }
}

template <typename Rep, typename Period>
struct FieldTraits<std::chrono::duration<Rep, Period>> {
  static Json Encode(const std::chrono::duration<Rep, Period>& value) { return value.count(); }

  static Status Decode(const Json& json,
                       const std::string& path,
                       std::chrono::duration<Rep, Period>* value) {
    Rep count = 0;
    LOCKSTEP_RETURN_IF_ERROR(FieldTraits<Rep>::Decode(json, path, &count));
    *value = std::chrono::duration<Rep, Period>(count);
    return OkStatus();
  }
};

template <>
struct FieldTraits<WallTime> {
  static Json Encode(const WallTime& value) { return value.time_since_epoch().count(); }

  static Status Decode(const Json& json, const std::string& path, WallTime* value) {
    WallTime::duration since{};
    LOCKSTEP_RETURN_IF_ERROR(FieldTraits<WallTime::duration>::Decode(json, path, &since));
    *value = WallTime(since);
    return OkStatus();
  }
};

template <typename T>
struct FieldTraits<std::optional<T>> {
  static Json Encode(const std::optional<T>& value) {
    return value ? EncodeField(*value) : Json(nullptr);
  }

  static Status Decode(const Json& json, const std::string& path, std::optional<T>* value) {
    return FieldTraits<T>::Decode(json, path, &value->emplace());
  }
};

template <typename First, typename Second>
struct FieldTraits<std::pair<First, Second>> {
  static Json Encode(const std::pair<const First, Second>& value) {
    return Json::array({EncodeField(value.first), EncodeField(value.second)});
  }

  static Status Decode(const Json& json, const std::string& path, std::pair<First, Second>* value) {
    if (!json.is_array() || json.size() != 2) {
      return WrongField(json, path, "a list of two elements");
    }
    LOCKSTEP_RETURN_IF_ERROR(FieldTraits<First>::Decode(json[0], path + "[0]", &value->first));
    return FieldTraits<Second>::Decode(json[1], path + "[1]", &value->second);
  }
};

// Of anything that has elements, which are of type `Element` while they are read.
template <typename List, typename Element>
struct ListTraits {
  static Json Encode(const List& list) {
    Json array = Json::array();
    for (const auto& element : list) {
      array.push_back(FieldTraits<Element>::Encode(element));
    }
    return array;
  }

  static Status Decode(const Json& json, const std::string& path, List* list) {
    if (!json.is_array()) {
      return WrongField(json, path, "a list");
    }
    for (std::size_t i = 0; i < json.size(); ++i) {
      Element element{};
      LOCKSTEP_RETURN_IF_ERROR(
          FieldTraits<Element>::Decode(json[i], path + "[" + std::to_string(i) + "]", &element));
      list->insert(list->end(), std::move(element));
    }
    return OkStatus();
  }
};

template <typename T>
struct FieldTraits<std::vector<T>> : ListTraits<std::vector<T>, T> {};

template <typename T>
struct FieldTraits<CopyOnWrite<T>> {
  static Json Encode(const CopyOnWrite<T>& value) { return EncodeField(*value); }

  static Status Decode(const Json& json, const std::string& path, CopyOnWrite<T>* value) {
    return FieldTraits<T>::Decode(json, path, &value->Edit());
  }
};

template <typename T>
struct FieldTraits<std::set<T>> : ListTraits<std::set<T>, T> {};

template <typename Key, typename T>
struct FieldTraits<std::map<Key, T>> : ListTraits<std::map<Key, T>, std::pair<Key, T>> {};

template <typename T>
Json EncodeField(const T& value) {
  return FieldTraits<T>::Encode(value);
}

}  // namespace lockstep::control

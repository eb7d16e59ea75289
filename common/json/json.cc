#include "common/json/json.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace lockstep {
namespace {

// Choice: to compare with so many is quicker than to keep a set of them.
constexpr std::size_t kFewKeys = 16;

// Builds a Json while watching what the library's own parser lets pass: duplicate keys and depth.
class StrictHandler : public nlohmann::json_sax<Json> {
 public:
  StrictHandler(Json* root, std::size_t keys_max) : root_(root), keys_max_(keys_max) {}

  const std::string& problem() const { return problem_; }

  std::size_t position() const { return position_; }

  bool null() override { return Add(nullptr); }

  bool boolean(bool value) override { return Add(value); }

  bool number_integer(number_integer_t value) override { return Add(value); }

  bool number_unsigned(number_unsigned_t value) override { return Add(value); }

  bool number_float(number_float_t value, const string_t& /*text*/) override { return Add(value); }

  bool string(string_t& value) override { return Add(std::move(value)); }

  bool binary(binary_t& value) override { return Add(Json::binary(std::move(value))); }

  bool start_object(std::size_t /*size*/) override { return Open(Json::object()); }

  bool key(string_t& name) override {
    if (!IsNew(name)) {
      problem_ = "key \"" + name + "\" appears twice";
      return false;
    }
    if (MembersOf(open_.back()).size() >= keys_max_) {
      problem_ = "an object has more than " + std::to_string(keys_max_) + " keys";
      return false;
    }
    name_ = std::move(name);
    return true;
  }

  bool end_object() override { return Close(); }

  bool start_array(std::size_t /*size*/) override { return Open(Json::array()); }

  bool end_array() override { return Close(); }

  bool parse_error(std::size_t position,
                   const std::string& last_token,
                   const nlohmann::detail::exception& error) override {
    static_cast<void>(error);
    position_ = position;
    problem_ = "unexpected " + (last_token.empty() ? "end of text" : "'" + last_token + "'");
    return false;
  }

 private:
  // An object or array that has begun and not ended.
  struct Container {
    Json* value;
    std::set<std::string> keys;  // of an object with more than kFewKeys
  };

  static Json::object_t::Container& MembersOf(const Container& open) {
    return open.value->get_ref<Json::object_t&>();
  }

  bool IsNew(const std::string& name) {
    Container& open = open_.back();
    const Json::object_t::Container& members = MembersOf(open);
    if (members.size() <= kFewKeys) {
      return std::none_of(
          members.begin(), members.end(), [&](const auto& one) { return one.first == name; });
    }
    if (open.keys.empty()) {
      for (const auto& [known, value] : members) {
        open.keys.insert(known);
      }
    }
    return open.keys.insert(name).second;
  }

  bool Add(Json value) {
    Insert(std::move(value));
    return true;
  }

  // A key is known to be new. The map's own insertion searches all before it, which takes
  // 10,000 labels a third of a second.
  Json* Insert(Json value) {
    if (open_.empty()) {
      *root_ = std::move(value);
      return root_;
    }
    Json* const parent = open_.back().value;
    return parent->is_array()
               ? &parent->emplace_back(std::move(value))
               : &MembersOf(open_.back()).emplace_back(std::move(name_), std::move(value)).second;
  }

  bool Open(Json value) {
    if (open_.size() == kJsonDepthMax) {
      problem_ = "nested deeper than " + std::to_string(kJsonDepthMax) + " levels";
      return false;
    }
    open_.push_back({Insert(std::move(value)), {}});
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  Json* root_;
  std::size_t keys_max_;
  std::vector<Container> open_;
  std::string name_;  // of the member that comes next
  std::string problem_;
  std::size_t position_ = 0;
};

std::string LineAndColumn(std::string_view text, std::size_t position) {
  position = std::min(position, text.size());
  const std::string_view before = text.substr(0, position);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? position : position - newline - 1;
  return "line " + std::to_string(line) + ", column " +
         std::to_string(std::max<std::size_t>(column, 1));
}

std::string Folded(std::string_view word) {
  std::string folded;
  for (const char c : word) {
    if (c != '-' && c != '_') {
      folded.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
    }
  }
  return folded;
}

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`.
// Source: optimal string alignment distance (Damerau 1964, restricted).
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const std::size_t substitution = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

std::string Joined(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) {
    text += (text.empty() ? "" : ", ") + std::string(word);
  }
  return text;
}

std::string NumberText(double value) {
  return DumpJson(value == std::floor(value) && std::abs(value) < 1e15
                      ? Json(static_cast<int64_t>(value))
                      : Json(value));
}

std::string NumberText(int64_t value) {
  return std::to_string(value);
}

// The whole number that the value is, also where it is written as 1e3 or 2.0, which the API server
// takes; up to 2^53, above which such a number may have been another one.
std::optional<int64_t> WholeNumber(const Json& value) {
  constexpr double kExactMax = 0x1p53;
  if (value.is_number_float()) {
    const double number = value.get<double>();
    const bool is_whole = std::abs(number) < kExactMax && std::trunc(number) == number;
    return is_whole ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
  }
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() &&
                      value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()});
  return fits ? std::optional(value.get<int64_t>()) : std::nullopt;
}

template <typename Number>
std::string RangeText(std::string_view noun, Number min, Number max, bool has_min, bool has_max) {
  std::string text(noun);
  if (has_min && has_max) {
    text += " from " + NumberText(min) + " to " + NumberText(max);
  } else if (has_min) {
    text += " of at least " + NumberText(min);
  } else if (has_max) {
    text += " of at most " + NumberText(max);
  }
  return text;
}

}  // namespace

Result<Json> ParseJson(std::string_view text, std::size_t keys_max) {
  Json root;
  StrictHandler handler(&root, keys_max);
  if (Json::sax_parse(text, &handler)) {
    return root;
  }
  std::string where =
      handler.position() > 0 ? " at " + LineAndColumn(text, handler.position()) : "";
  return Error(ErrorCode::kInvalidArgument, "not valid JSON" + where + ": " + handler.problem());
}

Json FiniteOrNull(const std::optional<double>& number) {
  return number.has_value() && std::isfinite(*number) ? Json(*number) : Json(nullptr);
}

std::string DescribeJson(const Json& value) {
  constexpr std::size_t kShownMax = 60;  // choice: fits a terminal line beside path and expectation
  if (value.is_object()) {
    return "an object";
  }
  if (value.is_array()) {
    return "a list";
  }
  if (value.is_null()) {
    return "nothing";
  }
  std::string text = DumpJson(value);
  if (text.size() > kShownMax) {
    text = text.substr(0, kShownMax) + "...";
  }
  return text;
}

std::string_view NearestWord(std::string_view word,
                             const std::vector<std::string_view>& candidates) {
  // A slip changes about a third of a word at most; above that a suggestion misleads.
  const std::string folded = Folded(word);
  std::size_t best_distance = std::max<std::size_t>(1, folded.size() / 3) + 1;
  std::string_view best;
  for (const std::string_view candidate : candidates) {
    const std::string other = Folded(candidate);
    const std::size_t longer = std::max(folded.size(), other.size());
    if (longer - std::min(folded.size(), other.size()) >= best_distance) {
      continue;  // the lengths alone are too far apart; spares a huge word its huge matrix
    }
    const std::size_t distance = EditDistance(folded, other);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

ObjectReader::ObjectReader(const Json& value, std::string path, std::vector<Error>* errors)
    : object_(value.is_object() ? &value : nullptr), path_(std::move(path)), errors_(errors) {
  if (object_ == nullptr) {
    errors_->push_back(
        Error(ErrorCode::kInvalidArgument, DescribeJson(value) + " found, expected an object")
            .WithField(path_.empty() ? "document" : path_));
  }
}

bool ObjectReader::Has(std::string_view key) {
  return Find(key) != nullptr;
}

const Json* ObjectReader::Find(std::string_view key) {
  known_.emplace(key);
  if (object_ == nullptr) {
    return nullptr;
  }
  const auto found = object_->find(std::string(key));
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

const Json* ObjectReader::Require(std::string_view key, std::string_view expected) {
  const Json* value = Find(key);
  if (value == nullptr && object_ != nullptr) {
    FailWith(ErrorCode::kMissingField, key, "missing, expected " + std::string(expected));
  }
  return value;
}

std::optional<std::string> ObjectReader::String(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_string()) {
    FailType(key, *value, "a string");
    return std::nullopt;
  }
  return value->get<std::string>();
}

std::optional<bool> ObjectReader::Bool(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_boolean()) {
    FailType(key, *value, "true or false");
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<int64_t> ObjectReader::Int(std::string_view key, int64_t min, int64_t max) {
  const Json* value = Find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const bool has_min = min != std::numeric_limits<int64_t>::min();
  constexpr double kTooLarge = 0x1p63;
  const bool is_too_large = value->is_number() && value->get<double>() >= kTooLarge;
  const bool has_max = is_too_large || max != std::numeric_limits<int64_t>::max();
  const std::optional<int64_t> number = WholeNumber(*value);
  if (!number || *number < min || *number > max) {
    FailType(key, *value, RangeText("a whole number", min, max, has_min, has_max));
    return std::nullopt;
  }
  return number;
}

int64_t ObjectReader::RequireInt(std::string_view key, int64_t min, int64_t max) {
  Require(key, "a whole number of at least " + std::to_string(min));
  return Int(key, min, max).value_or(min);
}

std::optional<double> ObjectReader::Number(std::string_view key, double min, double max) {
  const Json* value = Find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const bool has_min = min != std::numeric_limits<double>::lowest();
  const bool has_max = max != std::numeric_limits<double>::max();
  // Written as a negation so that NaN is refused too.
  if (!value->is_number() || !(value->get<double>() >= min && value->get<double>() <= max)) {
    FailType(key, *value, RangeText("a number", min, max, has_min, has_max));
    return std::nullopt;
  }
  return value->get<double>();
}

std::optional<std::string> ObjectReader::Choice(std::string_view key,
                                                const std::vector<std::string_view>& choices) {
  const Json* value = Find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const std::string expected = "one of " + Joined(choices);
  if (!value->is_string()) {
    FailType(key, *value, expected);
    return std::nullopt;
  }
  std::string word = value->get<std::string>();
  if (std::find(choices.begin(), choices.end(), word) != choices.end()) {
    return word;
  }
  const std::string_view nearest = NearestWord(word, choices);
  FailWith(ErrorCode::kUnknownField,
           key,
           DescribeJson(*value) + " found, expected " + expected +
               (nearest.empty() ? "" : "; did you mean \"" + std::string(nearest) + "\"?"));
  return std::nullopt;
}

std::vector<std::string> ObjectReader::Strings(std::string_view key) {
  std::vector<std::string> strings;
  const std::vector<const Json*> items = List(key);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i]->is_string()) {
      strings.push_back(items[i]->get<std::string>());
    } else {
      errors_->push_back(
          Error(ErrorCode::kInvalidArgument, DescribeJson(*items[i]) + " found, expected a string")
              .WithField(PathOf(key, i)));
    }
  }
  return strings;
}

std::vector<const Json*> ObjectReader::List(std::string_view key) {
  std::vector<const Json*> items;
  const Json* value = Find(key);
  if (value == nullptr) {
    return items;
  }
  if (!value->is_array()) {
    FailType(key, *value, "a list");
    return items;
  }
  for (const Json& item : *value) {
    items.push_back(&item);
  }
  return items;
}

void ObjectReader::Fail(std::string_view key, std::string message) {
  FailWith(ErrorCode::kInvalidArgument, key, std::move(message));
}

void ObjectReader::FailWith(ErrorCode code, std::string_view key, std::string message) {
  errors_->push_back(Error(code, std::move(message)).WithField(PathOf(key)));
}

void ObjectReader::FailType(std::string_view key, const Json& found, std::string_view expected) {
  Fail(key, DescribeJson(found) + " found, expected " + std::string(expected));
}

void ObjectReader::Finish(const std::map<std::string_view, std::string>& elsewhere) {
  if (object_ == nullptr) {
    return;
  }
  const std::vector<std::string_view> candidates(known_.begin(), known_.end());
  for (const auto& [key, value] : object_->items()) {
    if (known_.find(key) != known_.end()) {
      continue;
    }
    if (const auto answer = elsewhere.find(key); answer != elsewhere.end()) {
      if (!value.is_null()) {  // else it is as good as absent, as any that is known
        Fail(key, answer->second);
      }
      continue;
    }
    const std::string_view nearest = NearestWord(key, candidates);
    const std::string expected = nearest.empty()
                                     ? ", expected one of " + Joined(candidates)
                                     : "; did you mean \"" + std::string(nearest) + "\"?";
    FailWith(ErrorCode::kUnknownField, key, "unknown field" + expected);
  }
}

Json ObjectReader::Unknown() const {
  Json unknown = Json::object();
  if (object_ != nullptr) {
    for (const auto& [key, value] : object_->items()) {
      if (known_.find(key) == known_.end()) {
        unknown[key] = value;
      }
    }
  }
  return unknown;
}

std::string ObjectReader::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

std::string ObjectReader::PathOf(std::string_view key, std::size_t index) const {
  return PathOf(key) + "[" + std::to_string(index) + "]";
}

}  // namespace lockstep

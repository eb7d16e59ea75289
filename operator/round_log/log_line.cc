#include "operator/round_log/log_line.h"

#include <array>
#include <utility>

#include "operator/round_log/field_codec.h"

namespace lockstep::control {

template <typename Visit>
void EachField(const LogBegin*, const Visit& visit) {
  visit("version", &LogBegin::version);
  visit("levels", &LogBegin::levels);
  visit("isOneMachine", &LogBegin::is_one_machine);
}

template <typename Visit>
void EachField(const LogRound*, const Visit& visit) {
  visit("now", &LogRound::now);
  visit("options", &LogRound::options);
  visit("decisions", &LogRound::decisions);
}

template <typename Visit>
void EachField(const LogEnd*, const Visit& visit) {
  visit("why", &LogEnd::why);
}

namespace {

constexpr const char* kBegin = "lockstepRoundLog";
constexpr const char* kRound = "round";
constexpr const char* kEnd = "end";

constexpr std::size_t kSumDigits = 16;

// FNV-1a, 64 bits. Source: Fowler, Noll, Vo.
uint64_t SumOf(uint64_t sum, std::string_view text) {
  for (const char c : text) {
    sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return sum;
}

std::string HexOf(uint64_t sum) {
  std::string digits(kSumDigits, '0');
  for (std::size_t i = kSumDigits; i-- > 0; sum >>= 4U) {
    digits[i] = "0123456789abcdef"[sum & 15U];
  }
  return digits;
}

struct Encoder {
  Json operator()(const LogBegin& begin) const { return {{kBegin, EncodeField(begin)}}; }

  Json operator()(const LogRound& round) const { return {{kRound, EncodeField(round)}}; }

  Json operator()(const LogEnd& end) const { return {{kEnd, EncodeField(end)}}; }

  Json operator()(const StateEvent& event) const {
    return {{std::string(kEventWords[event.index()]),
             std::visit([](const auto& one) { return EncodeField(one); }, event)}};
  }
};

template <typename T>
Result<LogLine> DecodeAs(const std::string& name, const Json& json) {
  T value{};
  LOCKSTEP_RETURN_IF_ERROR(FieldTraits<T>::Decode(json, name, &value));
  return LogLine(std::move(value));
}

template <std::size_t... kIndexes>
Result<LogLine> DecodeEvent(const std::string& name,
                            const Json& json,
                            std::index_sequence<kIndexes...>) {
  Result<LogLine> line = Error(ErrorCode::kCorrupt, "unknown kind of line: \"" + name + "\"");
  const auto read = [&](auto index) {
    if (name == kEventWords[index.value]) {
      std::variant_alternative_t<index.value, StateEvent> event{};
      const Status status = FieldTraits<decltype(event)>::Decode(json, name, &event);
      line = status.ok() ? Result<LogLine>(LogLine(StateEvent(std::move(event))))
                         : Result<LogLine>(status.error());
    }
  };
  (read(std::integral_constant<std::size_t, kIndexes>()), ...);
  return line;
}

Result<LogLine> DecodeLine(const Json& json) {
  if (!json.is_object() || json.size() != 1) {
    return WrongField(json, "", "an object with one member");
  }
  const auto member = json.items().begin();
  const std::string name = member.key();
  if (name == kBegin) {
    return DecodeAs<LogBegin>(name, member.value());
  }
  if (name == kRound) {
    return DecodeAs<LogRound>(name, member.value());
  }
  if (name == kEnd) {
    return DecodeAs<LogEnd>(name, member.value());
  }
  return DecodeEvent(
      name, member.value(), std::make_index_sequence<std::variant_size_v<StateEvent>>());
}

}  // namespace

std::vector<std::string> DecisionsOf(const RoundResult& result) {
  std::vector<std::string> decisions;
  for (const Operation& operation : result.log) {
    decisions.push_back(ToText(operation));
  }
  for (const Refusal& refusal : result.refusals) {
    const Json constraint = EncodeField(refusal.why.constraint);
    std::string text = "refuse " + refusal.gang + " (" + constraint.get<std::string>() +
                       "): " + refusal.why.shortfall;
    if (refusal.why.estimated_start) {
      text += " [" + FormatRfc3339(*refusal.why.estimated_start) + "]";
    }
    if (!refusal.why.not_asked.empty()) {
      text += " (" + refusal.why.not_asked + ")";
    }
    decisions.push_back(std::move(text));
  }
  for (const std::string& gang : result.confirmed) {
    decisions.push_back("confirm " + gang);
  }
  for (const LinePosition& position : result.line) {
    decisions.push_back("position " + position.gang + " " + std::to_string(position.position));
  }
  for (const PermissionNeed& need : result.permissions_needed) {
    decisions.push_back("ask whether " + need.gang + " may create its pods");
  }
  if (result.outdated_count > 0) {
    decisions.push_back("outdated " + std::to_string(result.outdated_count));
  }
  if (result.look_again_at) {
    decisions.push_back("look again at " + FormatRfc3339(*result.look_again_at));
  }
  return decisions;
}

std::string LineChain::Write(const LogLine& line) {
  const std::string json = DumpJson(std::visit(Encoder(), line));
  sum_ = SumOf(sum_, json);
  return HexOf(sum_) + " " + json;
}

Result<LogLine> LineChain::Read(std::string_view text) {
  if (text.size() <= kSumDigits || text[kSumDigits] != ' ') {
    return Error(ErrorCode::kCorrupt, "no checksum of 16 digits found at the start of the line");
  }
  const std::string_view json = text.substr(kSumDigits + 1);
  sum_ = SumOf(sum_, json);
  if (HexOf(sum_) != text.substr(0, kSumDigits)) {
    return Error(ErrorCode::kCorrupt,
                 "the checksum does not match: this line, or a line before it, was changed, moved "
                 "or removed");
  }
  Result<Json> parsed = ParseJson(json);
  if (!parsed.ok()) {
    return Error(ErrorCode::kCorrupt, parsed.error().ToString());
  }
  return DecodeLine(*parsed);
}

}  // namespace lockstep::control

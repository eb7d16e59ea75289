// How JSON is written.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

#include "common/json/json.h"

namespace lockstep {
namespace {

std::string DumpByLibrary(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Bytes that a JSON text has as they are: ASCII without controls, quotes and backslashes.
constexpr std::array<bool, 256> kIsPlain = [] {
  std::array<bool, 256> is_plain{};
  for (std::size_t byte = 0x20; byte < 0x80; ++byte) {
    is_plain[byte] = byte != '"' && byte != '\\';
  }
  return is_plain;
}();

// `c`: of ASCII, and not plain.
void AppendEscaped(char c, std::string* out) {
  constexpr std::string_view kEscaped = "\b\f\n\r\t\"\\";
  constexpr std::string_view kLetters = "bfnrt\"\\";
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (const std::size_t at = kEscaped.find(c); at != std::string_view::npos) {
    out->append({'\\', kLetters[at]});
    return;
  }
  const auto byte = static_cast<unsigned char>(c);
  out->append("\\u00").append({kDigits[byte >> 4U], kDigits[byte & 0xFU]});
}

// The library decodes each byte as UTF-8, which takes a pod of 1.4 MB as long as all else that is
// done with it. Most text is plain.
void AppendText(std::string_view text, std::string* out) {
  out->push_back('"');
  while (!text.empty()) {
    const auto odd = std::find_if_not(
        text.begin(), text.end(), [](char c) { return kIsPlain[static_cast<unsigned char>(c)]; });
    const auto count = static_cast<std::size_t>(odd - text.begin());
    out->append(text, 0, count);
    text.remove_prefix(count);
    if (text.empty()) {
      break;
    }
    if (static_cast<unsigned char>(text.front()) >= 0x80) {
      const std::string rest = DumpByLibrary(std::string(text));
      out->append(rest, 1, rest.size() - 2);  // without its quotes
      break;
    }
    AppendEscaped(text.front(), out);
    text.remove_prefix(1);
  }
  out->push_back('"');
}

template <typename Number>
void AppendWhole(Number number, std::string* out) {
  std::array<char, std::numeric_limits<Number>::digits10 + 2> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out->append(digits.data(), end);
}

void AppendValue(const Json& value, std::string* out) {
  switch (value.type()) {
    case Json::value_t::object: {
      out->push_back('{');
      std::string_view separator;
      for (const auto& [key, member] : value.get_ref<const Json::object_t&>()) {
        out->append(separator);
        AppendText(key, out);
        out->push_back(':');
        AppendValue(member, out);
        separator = ",";
      }
      out->push_back('}');
      return;
    }
    case Json::value_t::array: {
      out->push_back('[');
      std::string_view separator;
      for (const Json& element : value.get_ref<const Json::array_t&>()) {
        out->append(separator);
        AppendValue(element, out);
        separator = ",";
      }
      out->push_back(']');
      return;
    }
    case Json::value_t::string:
      return AppendText(value.get_ref<const std::string&>(), out);
    case Json::value_t::number_integer:
      return AppendWhole(value.get<int64_t>(), out);
    case Json::value_t::number_unsigned:
      return AppendWhole(value.get<uint64_t>(), out);
    default:
      out->append(DumpByLibrary(value));
  }
}

}  // namespace

std::string DumpJson(const Json& value) {
  std::string text;
  AppendValue(value, &text);
  return text;
}

std::string DumpJsonPretty(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep

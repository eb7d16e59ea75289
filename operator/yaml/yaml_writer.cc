#include "operator/yaml/yaml_writer.h"

#include <algorithm>

#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

#include "operator/yaml/yaml.h"

namespace lockstep::control {
namespace {

// Whether a block of lines says exactly this text: one line end at its end, and no line that a
// reader would take for indentation or cut off.
bool FitsABlock(const std::string& text) {
  const bool is_plain = std::all_of(text.begin(), text.end(), [](unsigned char letter) {
    return letter == '\n' || (letter >= ' ' && letter != 0x7f);
  });
  return is_plain && text.find('\n') + 1 < text.size() && text.back() == '\n' &&
         text[text.size() - 2] != '\n' && text.front() != ' ' && text.front() != '\n';
}

// Plain texts that kubectl would take for a number, a truth value or nothing need quotes; so do
// those that other readers of YAML 1.1 would, 1:30 and 2026-11-21.
bool NeedsQuotes(const std::string& text) {
  const bool looks_like_number = text.find_first_of("0123456789") != std::string::npos &&
                                 text.find_first_not_of("0123456789_:.+-eE") == std::string::npos;
  return looks_like_number || ResolvePlainScalar(text) != Json(text);
}

void Write(const Json& value, YAML::Emitter* out);

void WriteText(const std::string& text, YAML::Emitter* out) {
  if (FitsABlock(text)) {
    *out << YAML::Literal << text;
  } else if (NeedsQuotes(text) || text.find_first_of("\n\t\r") != std::string::npos) {
    *out << YAML::DoubleQuoted << text;
  } else {
    *out << text;  // quoted where its letters mean something
  }
}

void WriteObject(const Json& value, YAML::Emitter* out) {
  *out << YAML::BeginMap;
  for (const auto& [key, member] : value.items()) {
    *out << YAML::Key;
    if (NeedsQuotes(key)) {
      *out << YAML::DoubleQuoted;
    }
    *out << key << YAML::Value;
    Write(member, out);
  }
  *out << YAML::EndMap;
}

void Write(const Json& value, YAML::Emitter* out) {
  if (value.is_string()) {
    WriteText(value.get<std::string>(), out);
  } else if (value.is_object() && !value.empty()) {
    WriteObject(value, out);
  } else if (value.is_array() && !value.empty()) {
    *out << YAML::BeginSeq;
    for (const Json& element : value) {
      Write(element, out);
    }
    *out << YAML::EndSeq;
  } else if (value.is_structured()) {
    *out << YAML::Flow << (value.is_object() ? YAML::BeginMap : YAML::BeginSeq)
         << (value.is_object() ? YAML::EndMap : YAML::EndSeq);
  } else if (value.is_null()) {
    *out << YAML::Null;
  } else {
    *out << DumpJson(value);  // numbers, true and false: JSON's words are YAML's
  }
}

}  // namespace

std::string WriteYaml(const Json& value) {
  YAML::Emitter out;
  out.SetNullFormat(YAML::LowerNull);
  Write(value, &out);
  std::string text = out.c_str();
  if (!text.ends_with('\n')) {  // as it does where a block comes last
    text += '\n';
  }
  return text;
}

}  // namespace lockstep::control

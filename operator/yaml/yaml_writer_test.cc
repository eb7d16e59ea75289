#include "operator/yaml/yaml_writer.h"

#include <gtest/gtest.h>

#include "common/base/prng.h"
#include "operator/yaml/yaml.h"

namespace lockstep::control {
namespace {

Json ReadBack(const std::string& text) {
  const YamlStream stream = ReadYaml(text);
  return stream.problems.empty() && stream.documents.size() == 1 ? stream.documents[0].value
                                                                 : Json("no document");
}

TEST(WriteYaml, IsBlockStyleInTheOrderOfKeys) {
  const Json value = {{"b", 1},
                      {"a", {{"list", {"x", Json{{"k", true}, {"l", nullptr}}}}}},
                      {"empty", {{"map", Json::object()}, {"list", Json::array()}}}};

  EXPECT_EQ(WriteYaml(value),
            "b: 1\n"
            "a:\n"
            "  list:\n"
            "    - x\n"
            "    - k: true\n"
            "      l: null\n"
            "empty:\n"
            "  map: {}\n"
            "  list: []\n");
}

TEST(WriteYaml, TextsThatOthersWouldTakeForSomethingElseAreQuoted) {
  for (const char* const text :
       {"",     "1",    "0.5",   "1e3", "true", "null", "~",    "yes",   "Off",
        "0777", "1:30", "1_000", "n",   "0x1F", ".inf", "0b1",  "-0b1",  "0o17",
        "0400", "y",    "NO",    "+5",  "1__0", "- a",  "a: b", "#note", "{a}",
        "*x",   "a #b", " a",    "a ",  "a\tb", "%x",   "@x",   "`x`",   "'x'"}) {
    const std::string written = WriteYaml(Json{{"text", text}});
    EXPECT_TRUE(written.find('"') != std::string::npos || written.find('\'') != std::string::npos)
        << written;
    EXPECT_EQ(ReadBack(written)["text"], text) << written;
  }
}

TEST(WriteYaml, ScriptsStandAsTheyAre) {
  const std::string script = "import os\nif True:\n    print(1)\n\n# end\n";

  EXPECT_EQ(WriteYaml(Json{{"args", {script}}}),
            "args:\n"
            "  - |\n"
            "    import os\n"
            "    if True:\n"
            "        print(1)\n"
            "\n"
            "    # end\n");
}

// Random texts of the letters that mean something to YAML.
TEST(WriteYaml, WhateverIsWrittenIsReadBack) {
  const std::string letters = "abxyo1_ 0.-:#\n\t'\"|>&*!%@`{}[],?\\~=<";
  Prng prng(7);
  for (int i = 0; i < 5'000; ++i) {
    std::string text;
    const uint64_t length = prng.Below(8);
    for (uint64_t j = 0; j < length; ++j) {
      text += letters[prng.Below(letters.size())];
    }
    const Json value = {{"k" + text, Json{text, {{"in", text}}}}};
    EXPECT_EQ(ReadBack(WriteYaml(value)), value) << WriteYaml(value);
  }
}

}  // namespace
}  // namespace lockstep::control

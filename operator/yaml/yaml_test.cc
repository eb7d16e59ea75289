#include "operator/yaml/yaml.h"

#include <cmath>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using ::testing::IsEmpty;

// The one document of `text` as compact JSON, or its first problem.
std::string AsJson(const std::string& text) {
  const YamlStream stream = ReadYaml(text);
  if (!stream.problems.empty()) {
    return stream.problems.front().message;
  }
  return stream.documents.size() == 1 ? DumpJson(stream.documents.front().value) : "not one";
}

// Every line of the table in goyaml.v2/resolve.go of sigs.k8s.io/yaml, and each way out of its
// numbers.
TEST(ResolvePlainScalar, ReadsWhatKubectlReads) {
  struct Row {
    const char* texts;     // with blanks between them
    const char* expected;  // as JSON: the value and its type
  };

  constexpr Row kRows[] = {
      {"~ null Null NULL", "null"},
      {"true True TRUE y Y yes Yes YES on On ON", "true"},
      {"false False FALSE n N no No NO off Off OFF", "false"},
      {"0 -0 +0 00 0x0 0.0 -0.0 1e-999 0_0", "0"},
      {"-12 -1_2 -0xc -0XC -014 -0o14 -0b1100 -12.0", "-12"},
      {"+5 5 05 0005 0b101 +0B101 0x5 5. 5_ 5e0", "5"},
      {"8 010 0o10 0O10 08 008 8.0 80e-1", "8"},
      {"256 0400 0x100 2_5_6", "256"},
      {"420 0644 0o644", "420"},
      {"1000 1_000 1__000 1e3 1E+3 1_0e2", "1000"},
      {"1.5 +1.5 1_.5 15e-1", "1.5"},
      {".5 0.5", "0.5"},
      {"-.5e-1", "-0.05"},
      {"9223372036854775807 0x7fffffffffffffff", "9223372036854775807"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"18446744073709551615 0xffffffffffffffff", "18446744073709551615"},
      {"18446744073709551616", "1.8446744073709552e+19"},
  };
  EXPECT_EQ(ResolvePlainScalar(""), nullptr);
  for (const Row& row : kRows) {
    std::istringstream texts(row.texts);
    for (std::string text; texts >> text;) {
      EXPECT_EQ(DumpJson(ResolvePlainScalar(text)), row.expected) << text;
    }
  }
}

TEST(ResolvePlainScalar, ATextIsWhatIsNothingElse) {
  for (const char* text : {"nUll",   "yEs",
                           "oN",     "tRUE",
                           "yes ",   "0o8",
                           "0x",     "0b",
                           "0b2",    "0xg",
                           "_1",     "x1",
                           "1:30",   "1e",
                           "1e999",  "-1e999",
                           ".",      "-",
                           "+",      "--1",
                           "1-",     "1.2.3",
                           "e5",     "+.nan",
                           "0x1p-2", "2026-11-21",
                           "<<",     "nan",
                           "inf",    "._",
                           "0-1",    "-0x-1",
                           "0x-1",   "2026-11-21T10:00:00Z"}) {
    EXPECT_EQ(ResolvePlainScalar(text), Json(text)) << text;
  }
}

TEST(ResolvePlainScalar, WhatJsonCannotHoldIsNotFinite) {
  for (const char* text : {".inf", "-.Inf", "+.INF", ".nan"}) {
    const Json found = ResolvePlainScalar(text);
    ASSERT_TRUE(found.is_number_float()) << text;
    EXPECT_FALSE(std::isfinite(found.get<double>())) << text;
  }
}

TEST(ReadYaml, KeysAreTheTextsOfWhatKubectlReads) {
  EXPECT_EQ(AsJson("{yes: 1, 010: 2, 1_0: 3, \"on\": 4, a: 5}"),
            R"({"true":1,"8":2,"10":3,"on":4,"a":5})");
}

TEST(ReadYaml, QuotedScalarsStayText) {
  EXPECT_EQ(AsJson("[\"1\", 'true', \"null\", !!str 5, '']"), R"(["1","true","null","5",""])");
  EXPECT_EQ(AsJson("[\"yes\", '0400', !!str 0b1, \"1_000\"]"), R"(["yes","0400","0b1","1_000"])");
  EXPECT_EQ(AsJson("a: |\n  12\nb: >-\n  true\n"), R"({"a":"12\n","b":"true"})");
}

TEST(ReadYaml, AliasesAreCopiesAndMergesFillGaps) {
  EXPECT_EQ(AsJson("a: &x {p: 1, q: 2}\nb: *x\n"), R"({"a":{"p":1,"q":2},"b":{"p":1,"q":2}})");
  EXPECT_EQ(AsJson("a: &x {p: 1, q: 2}\nb: {<<: *x, p: 9}\n"),
            R"({"a":{"p":1,"q":2},"b":{"p":9,"q":2}})");
  EXPECT_EQ(AsJson("a: &x {p: 1}\nb: &y {p: 2, r: 3}\nc:\n  <<: [*x, *y]\n"),
            R"({"a":{"p":1},"b":{"p":2,"r":3},"c":{"p":1,"r":3}})");
  EXPECT_EQ(AsJson("a: {'<<': 1}\n"), R"({"a":{"<<":1}})");
}

TEST(ReadYaml, AnchorsEndWithTheirDocument) {
  EXPECT_EQ(AsJson("a: &x 1\n---\nb: *x\n"),
            "not valid YAML: the referenced anchor is not defined");
}

TEST(ReadYaml, OneLongScalarAliasedOftenIsBounded) {
  std::string text = "a: &a " + std::string(500'000, 'x') + "\nb: [";
  for (int i = 0; i < 1000; ++i) {
    text += "*a, ";
  }
  EXPECT_EQ(AsJson(text + "]\n"),
            "not valid YAML: larger than 16777216 bytes after aliases are expanded");
}

TEST(ReadYaml, OneLongKeyAboveManyFieldsIsBounded) {
  std::string text = "? " + std::string(500'000, 'k') + "\n: {";
  for (int i = 0; i < 10'000; ++i) {
    text += "f" + std::to_string(i) + ": 1, ";
  }
  EXPECT_EQ(AsJson(text + "}\n"),
            "not valid YAML: larger than 16777216 bytes after aliases are expanded");
}

TEST(ReadYaml, NestingAsDeepAsJsonIsReadAndDeeperIsNot) {
  const auto nested = [](int depth) {
    const auto count = static_cast<std::size_t>(depth);
    return std::string(count, '[') + std::string(count, ']');
  };
  EXPECT_EQ(AsJson(nested(kJsonDepthMax)), nested(kJsonDepthMax));
  EXPECT_EQ(AsJson(nested(kJsonDepthMax + 1)), "not valid YAML: nested deeper than 64 levels");
  EXPECT_EQ(AsJson(nested(100'000)), "not valid YAML: nested deeper than 64 levels");
}

TEST(ReadYaml, TextOutsideAsciiIsKept) {
  EXPECT_EQ(AsJson("a: \xC3\xBC\xE2\x82\xAC\xF0\x9F\x99\x82\n"),
            "{\"a\":\"\xC3\xBC\xE2\x82\xAC\xF0\x9F\x99\x82\"}");
}

TEST(ReadYaml, BytesThatAreNotUtf8AreRefused) {
  for (const char* bytes : {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\x80"}) {
    EXPECT_EQ(AsJson(std::string("a: ") + bytes), "not valid YAML: bytes that are not UTF-8");
  }
}

TEST(ReadYaml, PositionsAreThoseOfKeysAndItems) {
  const YamlStream stream = ReadYaml("a:\n  b: [1,\n      {c: 2}]\n# x\n\nd: 3\n");
  ASSERT_THAT(stream.problems, IsEmpty());
  const FieldPositions& positions = stream.documents.at(0).positions;
  EXPECT_EQ(positions.Find("a"), (TextPosition{1, 1}));
  EXPECT_EQ(positions.Find("a.b"), (TextPosition{2, 3}));
  EXPECT_EQ(positions.Find("a.b[0]"), (TextPosition{2, 7}));
  EXPECT_EQ(positions.Find("a.b[1].c"), (TextPosition{3, 8}));
  EXPECT_EQ(positions.Find("d"), (TextPosition{6, 1}));
}

TEST(ReadYaml, FieldThatIsNotThereStandsWhereItsParentDoes) {
  const YamlStream stream = ReadYaml("a:\n  b: [1]\n");
  const FieldPositions& positions = stream.documents.at(0).positions;
  EXPECT_EQ(positions.Find("a.b[7].c.d"), (TextPosition{2, 3}));
  EXPECT_EQ(positions.Find("a.z"), (TextPosition{1, 1}));
  EXPECT_EQ(positions.Find("z"), TextPosition());
}

// As a download leaves it that broke off.
TEST(ReadYaml, FileThatIsCutOffSaysWhereItEndsAndWithinWhat) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a: 1\nb: {c: [{d: e,\n",
       "line 2, but the part that begins on line 2, column 9 is not closed"},
      {"a: 1\nb: {c: 1, d: {",
       "line 2, but the part that begins on line 2, column 14 is not closed"},
      {"a: [1, 2\nb: 3 # ]\nc: 4\n",
       "line 3, but the part that begins on line 1, column 4 is not closed"},
      {"a: it's\nb: [c, \"d",
       "line 2, but the part that begins on line 2, column 8 is not closed"}};
  for (const auto& [text, where] : cases) {
    EXPECT_EQ(AsJson(text), "not valid YAML: the file ends on " + where) << text;
  }
  EXPECT_EQ(AsJson("{a: 1}: 2\n"), "not valid YAML: an object found, expected a key");
}

TEST(WithoutLists, ListsThatHoldListsAreReadToTheirEnds) {
  std::vector<YamlDocument> documents = WithoutLists(
      ReadYaml("kind: List\nitems:\n- kind: List\n  items:\n  - {a: 1}\n- {b: 2}\n").documents);
  ASSERT_EQ(documents.size(), 2U);
  EXPECT_EQ(documents[0].value["a"], 1);
  EXPECT_EQ(documents[0].item, "items[0].items[0]");
  EXPECT_EQ(documents[0].positions.Find("a").line, 5);
  EXPECT_EQ(documents[1].item, "items[1]");
}

}  // namespace
}  // namespace lockstep::control

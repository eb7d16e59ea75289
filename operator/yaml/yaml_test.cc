#include "operator/yaml/yaml.h"

#include <cmath>
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

TEST(ResolvePlainScalar, FollowsTheCoreSchemaOfYaml12) {
  struct Row {
    const char* text;
    const char* expected;  // as JSON: the value and its type
  };

  constexpr Row kRows[] = {
      {"", "null"},
      {"~", "null"},
      {"null", "null"},
      {"NULL", "null"},
      {"nUll", R"("nUll")"},
      {"true", "true"},
      {"True", "true"},
      {"FALSE", "false"},
      {"yes", R"("yes")"},
      {"on", R"("on")"},
      {"n", R"("n")"},
      {"0", "0"},
      {"-12", "-12"},
      {"+5", "5"},
      {"010", "10"},
      {"0o17", "15"},
      {"0x1F", "31"},
      {"0o8", R"("0o8")"},
      {"0x", R"("0x")"},
      {"1_000", R"("1_000")"},
      {"1:30", R"("1:30")"},
      {"2026-11-21", R"("2026-11-21")"},
      {"1.5", "1.5"},
      {"1.", "1.0"},
      {".5", "0.5"},
      {"-.5e-1", "-0.05"},
      {"1e3", "1000.0"},
      {"+1E+2", "100.0"},
      {"1e", R"("1e")"},
      {".", R"(".")"},
      {"-", R"("-")"},
      {"+", R"("+")"},
      {"1.2.3", R"("1.2.3")"},
      {"1e-999", "0.0"},
      {"e5", R"("e5")"},
      {"9223372036854775807", "9223372036854775807"},
      {"18446744073709551615", "18446744073709551615"},
      {"18446744073709551616", "1.8446744073709552e+19"},
  };
  for (const Row& row : kRows) {
    EXPECT_EQ(DumpJson(ResolvePlainScalar(row.text)), row.expected) << row.text;
  }
}

TEST(ResolvePlainScalar, WhatJsonCannotHoldIsNotFinite) {
  for (const char* text : {".inf", "-.Inf", "+.INF", ".nan", "1e999", "-1e999"}) {
    const Json found = ResolvePlainScalar(text);
    ASSERT_TRUE(found.is_number_float()) << text;
    EXPECT_FALSE(std::isfinite(found.get<double>())) << text;
  }
}

TEST(ReadYaml, QuotedScalarsStayText) {
  EXPECT_EQ(AsJson("[\"1\", 'true', \"null\", !!str 5, '']"), R"(["1","true","null","5",""])");
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
  EXPECT_EQ(AsJson(text + "]\n"), "not valid YAML: larger than 16777216 bytes once expanded");
}

TEST(ReadYaml, OneLongKeyAboveManyFieldsIsBounded) {
  std::string text = "? " + std::string(500'000, 'k') + "\n: {";
  for (int i = 0; i < 10'000; ++i) {
    text += "f" + std::to_string(i) + ": 1, ";
  }
  EXPECT_EQ(AsJson(text + "}\n"), "not valid YAML: larger than 16777216 bytes once expanded");
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
      {"a: 1\nb: {c: [{d: e,\n", "line 2, within what begins on line 2, column 9"},
      {"a: 1\nb: {c: 1, d: {", "line 2, within what begins on line 2, column 14"},
      {"a: [1, 2\nb: 3 # ]\nc: 4\n", "line 3, within what begins on line 1, column 4"},
      {"a: it's\nb: [c, \"d", "line 2, within what begins on line 2, column 8"}};
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

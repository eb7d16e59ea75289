#include "common/json/json.h"

#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/prng.h"

namespace lockstep {
namespace {

std::vector<std::string> Texts(const std::vector<Error>& errors) {
  std::vector<std::string> texts;
  for (const Error& error : errors) {
    texts.push_back(error.ToString());
  }
  return texts;
}

TEST(ParseJson, KeepsTheOrderOfKeys) {
  EXPECT_EQ(DumpJson(ParseJson(R"({"b": 1, "a": [true, null]})").value()),
            R"({"b":1,"a":[true,null]})");
}

// By the library, which is slower.
TEST(DumpJson, WritesWhatTheLibraryWrites) {
  const auto expect_equal = [](const Json& value) {
    EXPECT_EQ(DumpJson(value), value.dump(-1, ' ', false, Json::error_handler_t::replace));
  };
  for (const Json& value : {Json(),
                            Json(true),
                            Json(0),
                            Json(std::numeric_limits<int64_t>::min()),
                            Json(std::numeric_limits<int64_t>::max()),
                            Json(std::numeric_limits<uint64_t>::max()),
                            Json(0.1),
                            Json(1e300),
                            Json(std::numeric_limits<double>::infinity()),
                            Json::object(),
                            Json::array(),
                            Json{{"a", {1, {{"b", nullptr}}, "c"}}, {"\"\n", "\x7f"}}}) {
    expect_equal(value);
  }
  for (int byte = 0; byte < 256; ++byte) {
    expect_equal(std::string(1, static_cast<char>(byte)));
  }
  // Bytes of all kinds in any order: plain, escaped, and whole, cut and impossible UTF-8.
  const std::vector<std::string> parts = {"a",
                                          "plain text",
                                          "\"",
                                          "\\",
                                          "\n",
                                          "\x01",
                                          "\xc3\xa9",
                                          "\xc3",
                                          "\xa9",
                                          "\xe2\x82\xac",
                                          "\xe2\x82",
                                          "\xff",
                                          "\xf0\x9f\x98\x80",
                                          "\xed\xa0\x80"};
  Prng prng(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (uint64_t left = prng.Below(8); left > 0; --left) {
      text += parts[prng.Below(parts.size())];
    }
    expect_equal(text);
    expect_equal(Json{{text, 1}});
  }
}

TEST(ParseJson, SyntaxErrorGivesLineAndColumn) {
  const Result<Json> result = ParseJson("{\n  \"a\": 1,\n  b\n}");
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message().find("line 3"), std::string::npos) << result.error().message();
}

TEST(ParseJson, RefusesWhatIsNotOneCleanDocument) {
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  for (const std::string& text :
       {std::string(R"({"a": 1, "a": 2})"), std::string("{} {}"), std::string(), deep}) {
    EXPECT_FALSE(ParseJson(text).ok()) << text;
  }
}

TEST(ParseJson, RefusesAKeyThatAppearsTwiceAmongAnyNumberOfKeys) {
  for (int count = 1; count < 40; ++count) {
    for (const int again : {0, count / 2, count - 1}) {
      std::string text = R"({"list": [{"0": 1}, {"0": 1}], "inner": {)";
      for (int i = 0; i < count; ++i) {
        text += "\"" + std::to_string(i) + "\": {\"0\": 0}, ";
      }
      const std::string last = text + "\"x\": 0}}";
      EXPECT_TRUE(ParseJson(last).ok()) << last;
      text += "\"" + std::to_string(again) + "\": 0}}";
      EXPECT_EQ(ParseJson(text).error().message(),
                "not valid JSON: key \"" + std::to_string(again) + "\" appears twice");
    }
  }
}

TEST(ParseJson, ObjectsHaveABoundedNumberOfKeys) {
  const auto with_keys = [](std::size_t count) {
    std::string text = "{";
    for (std::size_t i = 0; i < count; ++i) {
      text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
    }
    return text + "}";
  };
  EXPECT_TRUE(ParseJson(with_keys(16384)).ok());
  EXPECT_EQ(ParseJson(with_keys(16385)).error().message(),
            "not valid JSON: an object has more than 16384 keys");
}

TEST(ObjectReader, RecordsEveryProblemWithPathValueAndExpectation) {
  const Json value = ParseJson(R"({"replicas": -1, "name": 3, "policy": "never", "gpu": 1,
                                   "args": ["a", 5], "rate": "fast"})")
                         .value();
  std::vector<Error> errors;
  ObjectReader reader(value, "spec.roles[0]", &errors);
  EXPECT_EQ(reader.Int("replicas", 0, 1000), std::nullopt);
  EXPECT_EQ(reader.String("name"), std::nullopt);
  EXPECT_EQ(reader.Choice("policy", {"Never", "Always"}), std::nullopt);
  EXPECT_EQ(reader.Strings("args"), std::vector<std::string>{"a"});
  EXPECT_EQ(reader.Number("rate", 0.0), std::nullopt);
  EXPECT_EQ(reader.Int("gpus", 0), std::nullopt);
  reader.Require("template", "an object");
  reader.Finish();
  EXPECT_EQ(
      Texts(errors),
      (std::vector<std::string>{
          "spec.roles[0].replicas: -1 found, expected a whole number from 0 to 1000",
          "spec.roles[0].name: 3 found, expected a string",
          "spec.roles[0].policy: \"never\" found, expected one of Never, Always; did you mean "
          "\"Never\"?",
          "spec.roles[0].args[1]: 5 found, expected a string",
          "spec.roles[0].rate: \"fast\" found, expected a number of at least 0",
          "spec.roles[0].template: missing, expected an object",
          "spec.roles[0].gpu: unknown field; did you mean \"gpus\"?",
      }));
}

TEST(ObjectReader, WhatANewerVersionMayKnowHasACodeOfItsOwn) {
  const Json value = ParseJson(R"({"word": "new", "count": -1, "novel": 1, "moved": 1})").value();
  std::vector<Error> errors;
  ObjectReader reader(value, "", &errors);
  reader.Choice("word", {"old"});
  reader.Int("count", 0);
  reader.Require("name", "a string");
  reader.Finish({{"moved", "unknown field in Adam; the field belongs to SGD only"}});
  std::map<std::string, ErrorCode> codes;
  for (const Error& error : errors) {
    codes.emplace(error.field(), error.code());
  }
  EXPECT_EQ(codes,
            (std::map<std::string, ErrorCode>{{"word", ErrorCode::kUnknownField},
                                              {"count", ErrorCode::kInvalidArgument},
                                              {"name", ErrorCode::kMissingField},
                                              {"novel", ErrorCode::kUnknownField},
                                              {"moved", ErrorCode::kInvalidArgument}}));
}

TEST(ObjectReader, RequiredNumberIsMissedWithItsLowerBound) {
  const Json value = ParseJson(R"({"wrong": -1, "right": 7})").value();
  std::vector<Error> errors;
  ObjectReader reader(value, "", &errors);
  EXPECT_EQ(reader.RequireInt("right", 1, 9), 7);
  EXPECT_EQ(reader.RequireInt("wrong", 1), 1);
  EXPECT_EQ(reader.RequireInt("none", 1, 9), 1);
  EXPECT_EQ(reader.RequireInt("neither", 0), 0);
  EXPECT_EQ(Texts(errors),
            (std::vector<std::string>{"wrong: -1 found, expected a whole number of at least 1",
                                      "none: missing, expected a whole number of at least 1",
                                      "neither: missing, expected a whole number of at least 0"}));
}

TEST(ObjectReader, NumberBeyondInt64IsRefusedNotWrapped) {
  const Json value = ParseJson(R"({"n": 18446744073709551615, "f": 1.5})").value();
  std::vector<Error> errors;
  ObjectReader reader(value, "", &errors);
  EXPECT_EQ(reader.Int("n", 0), std::nullopt);
  EXPECT_EQ(reader.Int("f"), std::nullopt);
  EXPECT_EQ(Texts(errors),
            (std::vector<std::string>{
                "n: 18446744073709551615 found, expected a whole number from 0 to "
                "9223372036854775807",
                "f: 1.5 found, expected a whole number",
            }));
}

TEST(ObjectReader, NullCountsAsAbsent) {
  const Json value = ParseJson(R"({"n": null})").value();
  std::vector<Error> errors;
  ObjectReader reader(value, "", &errors);
  EXPECT_FALSE(reader.Has("n"));
  EXPECT_TRUE(errors.empty());
}

TEST(ObjectReader, NotAnObjectIsOneError) {
  std::vector<Error> errors;
  ObjectReader reader(Json(5), "spec", &errors);
  EXPECT_EQ(reader.Int("n"), std::nullopt);
  reader.Require("m", "anything");
  reader.Finish();
  EXPECT_EQ(Texts(errors), std::vector<std::string>{"spec: 5 found, expected an object"});
}

TEST(NearestWord, SuggestsSlipsAndNothingFar) {
  EXPECT_EQ(NearestWord("replica", {"replicas", "roles"}), "replicas");
  EXPECT_EQ(NearestWord("max_replicas", {"minReplicas", "maxReplicas"}), "maxReplicas");
  EXPECT_EQ(NearestWord("banana", {"replicas", "roles"}), "");
  EXPECT_EQ(NearestWord(std::string(10'000'000, 'x'), {"replicas", "roles"}), "");
}

}  // namespace
}  // namespace lockstep

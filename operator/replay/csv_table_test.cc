#include "operator/replay/csv_table.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

std::string TableProblemOf(std::string_view text) {
  const auto table = CsvTable::Parse("t.csv", text, {"a", "b"});
  return table.ok() ? "" : table.error().ToString();
}

TEST(CsvTable, ReadsValuesByColumn) {
  const auto table = CsvTable::Parse("t.csv", "b,a,c\r\n1,x,\n\n2,y,2.5\n", {"a", "b"});
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table->row_count(), 2U);
  EXPECT_EQ(table->Text(0, "a"), "x");
  EXPECT_EQ(*table->Int(1, "b", 0, 9), 2);
  EXPECT_EQ(*table->Number(1, "c", 0, 9), 2.5);
  EXPECT_EQ(table->Text(0, "c"), "");
  EXPECT_EQ(table->Text(0, "other"), "");
  EXPECT_FALSE(table->has_column("other"));
}

TEST(CsvTable, WrongShapeNamesFileAndLine) {
  EXPECT_EQ(TableProblemOf("a,c\n1,2\n"), "t.csv:1: no column \"b\" in the first line");
  EXPECT_EQ(TableProblemOf(""), "t.csv:1: no column \"a\" in the first line");
  EXPECT_EQ(TableProblemOf("a,b\n"), "t.csv:1: no data found after the first line");
  EXPECT_EQ(TableProblemOf("a,b\n1,2\n1\n"),
            "t.csv:3: 1 values found, expected 2, the number of columns in the first line");
  EXPECT_EQ(TableProblemOf("a,b\n1,\"2\"\n"),
            "t.csv:2: quotes found, expected values without quotes between commas");
}

TEST(CsvTable, WrongValueNamesColumnAndExpectation) {
  const auto table = CsvTable::Parse("t.csv", "a,b\n\n1x,-2\n,inf\n", {});
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table->Int(0, "a", 0, 9).error().ToString(),
            "t.csv:3: a: \"1x\" found, expected a whole number from 0 to 9");
  EXPECT_EQ(table->Int(0, "b", 0, 9).error().ToString(),
            "t.csv:3: b: \"-2\" found, expected a whole number from 0 to 9");
  EXPECT_EQ(table->Int(1, "a", 0, 9).error().ToString(),
            "t.csv:4: a: \"\" found, expected a whole number from 0 to 9");
  EXPECT_EQ(table->Number(1, "b", 0, 1.5).error().ToString(),
            "t.csv:4: b: \"inf\" found, expected a number from 0 to 1.5");
}

TEST(CsvTable, FileThatIsNotThereIsAnError) {
  const auto table = CsvTable::Read("there-is-no-such-file.csv", {});
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace lockstep::control

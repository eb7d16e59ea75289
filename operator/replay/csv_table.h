#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace lockstep::control {

// The largest file of a trace that is read. Choice: the largest public one has 7 MB.
inline constexpr std::size_t kTraceBytesMax = std::size_t{1} << 30U;

// A table of comma-separated values whose first line names the columns. Values hold no commas and
// no quotes.
class CsvTable {
 public:
  // `name` is what errors call the file. Errors: kInvalidArgument "FILE:LINE: ..." where a column
  // is missing, or a line has another number of values than there are columns.
  static Result<CsvTable> Parse(std::string name,
                                std::string_view text,
                                const std::vector<std::string>& columns);
  // The same of a file. Errors: also those of ReadFile.
  static Result<CsvTable> Read(const std::string& path, const std::vector<std::string>& columns);

  std::size_t row_count() const { return rows_.size(); }

  bool has_column(std::string_view column) const;

  // The value as it stands there; empty where there is no such column.
  std::string Text(std::size_t row, std::string_view column) const;

  // The value as a number. Errors: kInvalidArgument with file, line, column, what was found and
  // what was expected.
  Result<int64_t> Int(std::size_t row, std::string_view column, int64_t min, int64_t max) const;
  Result<double> Number(std::size_t row, std::string_view column, double min, double max) const;

  // "FILE:LINE: COLUMN: "FOUND" found, expected EXPECTED".
  Error Wrong(std::size_t row, std::string_view column, std::string_view expected) const;

 private:
  std::size_t ColumnOf(std::string_view column) const;

  std::string name_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> lines_;  // of each row, from 1
};

}  // namespace lockstep::control

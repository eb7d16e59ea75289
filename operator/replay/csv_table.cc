#include "operator/replay/csv_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "common/base/io/file.h"

namespace lockstep::control {
namespace {

std::vector<std::string> Split(std::string_view line) {
  std::vector<std::string> values;
  while (true) {
    const std::size_t comma = line.find(',');
    values.emplace_back(line.substr(0, comma));
    if (comma == std::string_view::npos) {
      return values;
    }
    line.remove_prefix(comma + 1);
  }
}

Error At(const std::string& name, std::size_t line, const std::string& what) {
  return Error(ErrorCode::kInvalidArgument, name + ":" + std::to_string(line) + ": " + what);
}

std::string Quoted(std::string_view value) {
  constexpr std::size_t kShownMax = 60;
  return "\"" + std::string(value.substr(0, kShownMax)) + (value.size() > kShownMax ? "..." : "") +
         "\"";
}

// 86400 and 0.5, not 86400.000000.
std::string NumberText(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') {
    text.pop_back();
  }
  return text;
}

// The whole of `text` as a number; null where it is none.
template <typename Number>
std::optional<Number> Parsed(const std::string& text) {
  Number value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, value);
  return problem == std::errc() && rest == end ? std::optional(value) : std::nullopt;
}

}  // namespace

Result<CsvTable> CsvTable::Parse(std::string name,
                                 std::string_view text,
                                 const std::vector<std::string>& columns) {
  CsvTable table;
  table.name_ = std::move(name);
  for (std::size_t line_number = 1; !text.empty(); ++line_number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.empty() && line.back() == '\r') {
      line.remove_suffix(1);
    }
    if (line.find('"') != std::string_view::npos) {
      return At(
          table.name_, line_number, "quotes found, expected values without quotes between commas");
    }
    std::vector<std::string> values = Split(line);
    if (table.columns_.empty()) {
      table.columns_ = std::move(values);
      continue;
    }
    if (line.empty()) {
      continue;
    }
    if (values.size() != table.columns_.size()) {
      return At(table.name_,
                line_number,
                std::to_string(values.size()) + " values found, expected " +
                    std::to_string(table.columns_.size()) +
                    ", the number of columns in the first line");
    }
    table.rows_.push_back(std::move(values));
    table.lines_.push_back(line_number);
  }
  for (const std::string& column : columns) {
    if (!table.has_column(column)) {
      return At(table.name_, 1, "no column " + Quoted(column) + " in the first line");
    }
  }
  if (table.rows_.empty()) {
    return At(table.name_, 1, "no data found after the first line");
  }
  return table;
}

Result<CsvTable> CsvTable::Read(const std::string& path, const std::vector<std::string>& columns) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kTraceBytesMax));
  return Parse(path, text, columns);
}

std::size_t CsvTable::ColumnOf(std::string_view column) const {
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  return static_cast<std::size_t>(found - columns_.begin());
}

bool CsvTable::has_column(std::string_view column) const {
  return ColumnOf(column) < columns_.size();
}

std::string CsvTable::Text(std::size_t row, std::string_view column) const {
  return has_column(column) ? rows_[row][ColumnOf(column)] : std::string();
}

Error CsvTable::Wrong(std::size_t row, std::string_view column, std::string_view expected) const {
  return At(name_,
            lines_[row],
            std::string(column) + ": " + Quoted(Text(row, column)) + " found, expected " +
                std::string(expected));
}

Result<int64_t> CsvTable::Int(std::size_t row,
                              std::string_view column,
                              int64_t min,
                              int64_t max) const {
  const auto value = Parsed<int64_t>(Text(row, column));
  if (!value || *value < min || *value > max) {
    return Wrong(
        row, column, "a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return *value;
}

Result<double> CsvTable::Number(std::size_t row,
                                std::string_view column,
                                double min,
                                double max) const {
  const auto value = Parsed<double>(Text(row, column));
  if (!value || !std::isfinite(*value) || *value < min || *value > max) {
    return Wrong(row, column, "a number from " + NumberText(min) + " to " + NumberText(max));
  }
  return *value;
}

}  // namespace lockstep::control

#include "operator/cli/terminal/console.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unistd.h>
#include <utility>
#include <vector>

#include <sys/ioctl.h>

#include "common/base/io/file.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kBarWidthMax = 27;  // choices, with the brackets
constexpr std::size_t kBarWidthMin = 12;
constexpr int kColumnsDefault = 80;
constexpr int kBarColumnsMin = 60;  // choice: a bar leaves half of it to the figures

std::string Steps(const Progress& progress) {
  if (progress.step == 0 && progress.steps_total == 0) {
    return "starting";  // where it goes on is not known yet
  }
  return "step " + std::to_string(progress.step) +
         (progress.steps_total > 0 ? "/" + std::to_string(progress.steps_total) : "");
}

std::string Loss(const Progress& progress) {
  char text[64];
  std::snprintf(text, sizeof text, "  loss %.4f", progress.loss);
  return progress.has_loss ? text : progress.has_diverged ? "  loss not finite" : "";
}

std::string Pace(const Progress& progress) {
  char text[64];
  std::snprintf(text, sizeof text, "  %.0f samples/s", progress.samples_per_second);
  return progress.samples_per_second > 0 ? text : "";
}

std::string Eta(double seconds) {
  return "  eta " + FormatDuration(std::chrono::duration_cast<Duration>(
                        std::chrono::duration<double>(std::min(seconds, 1e8))));
}

// From the pace of the whole run so far: steadier than that of the last second.
std::string Eta(const Progress& progress) {
  if (progress.steps_done <= 0 || progress.steps_total <= progress.step) {
    return "";
  }
  const double left = static_cast<double>(progress.steps_total - progress.step) /
                      static_cast<double>(progress.steps_done);
  return Eta(ToSeconds(progress.elapsed) * left);
}

// Whole seconds that have passed: a command at its start has run for none.
std::string Elapsed(const Progress& progress) {
  return FormatDuration(std::chrono::floor<std::chrono::seconds>(progress.elapsed));
}

// What a program of the user's own has told of itself; empty: nothing.
std::string OfProgram(const Progress& progress) {
  return progress.step > 0 ? Steps(progress) + Loss(progress) +
                                 (progress.eta_seconds > 0 ? Eta(progress.eta_seconds) : "") + "  "
                           : "";
}

bool IsCalm(const Progress& progress) {
  return progress.pods_running == progress.pods_total &&
         (progress.state.empty() || progress.state == "Running");
}

// Its last figures are in the end of the run; what is left to show is who is still there.
bool HasTrained(const Progress& progress) {
  return progress.is_training && (progress.state == "Succeeded" || progress.state == "Failed");
}

std::string Workers(const Progress& progress) {
  return "  " + std::to_string(progress.pods_running) + "/" + std::to_string(progress.pods_total) +
         " running" +
         (progress.state.empty() || progress.state == "Running" ? "" : " (" + progress.state + ")");
}

int Percent(const Progress& progress) {
  if (progress.steps_total <= 0) {
    return 0;
  }
  return static_cast<int>(std::clamp<int64_t>(100 * progress.step / progress.steps_total, 0, 100));
}

// "[=====>        ]", `width` columns with its brackets.
std::string Bar(int percent, std::size_t width) {
  std::string bar((width - 3) * static_cast<std::size_t>(percent) / 100, '=');
  bar += percent < 100 ? ">" : "=";
  bar.resize(width - 2, ' ');
  return "[" + bar + "] ";
}

// One part of the line: what is worth least goes first where the screen is too narrow for all.
struct Column {
  std::string text;
  int worth = 0;
};

std::size_t WidthOf(const std::vector<Column>& columns) {
  std::size_t width = 0;
  for (const Column& column : columns) {
    width += column.text.size();
  }
  return width;
}

// The last that is left is cut; half a figure says something else than the whole.
std::string Fit(std::vector<Column> columns, std::size_t width) {
  while (columns.size() > 1 && WidthOf(columns) > width) {
    columns.erase(std::ranges::min_element(columns, {}, &Column::worth));
  }
  std::string line;
  for (const Column& column : columns) {
    line += column.text;
  }
  return line.substr(0, width);
}

}  // namespace

std::string EraseBar(std::size_t bar_columns, int columns) {
  const auto width = static_cast<std::size_t>(std::max(1, columns));
  const std::size_t rows = std::max<std::size_t>(1, (bar_columns + width - 1) / width);
  return rows == 1 ? "\r\x1b[K" : "\r\x1b[" + std::to_string(rows - 1) + "A\x1b[J";
}

std::string FormatDuration(Duration duration) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(duration).count();
  char text[64];
  if (seconds < 60) {
    std::snprintf(text, sizeof text, "%lld s", static_cast<long long>(seconds));
  } else if (seconds < 3600) {
    std::snprintf(text,
                  sizeof text,
                  "%lld min %02lld s",
                  static_cast<long long>(seconds / 60),
                  static_cast<long long>(seconds % 60));
  } else {
    std::snprintf(text,
                  sizeof text,
                  "%lld h %02lld min",
                  static_cast<long long>(seconds / 3600),
                  static_cast<long long>(seconds / 60 % 60));
  }
  return text;
}

int Complain(int exit_code, const std::string& message) {
  std::fprintf(stderr, "lockstep: %s\n", message.c_str());
  return exit_code;
}

std::string FormatProgress(const Progress& progress) {
  if (HasTrained(progress)) {
    return progress.job + Workers(progress);
  }
  std::string line = progress.job + "  ";
  if (!progress.is_training) {
    return line + OfProgram(progress) + Elapsed(progress) + Workers(progress);
  }
  line += Steps(progress) + Loss(progress) + Pace(progress);
  if (progress.steps_total > 0) {
    line += "  " + std::to_string(Percent(progress)) + " %";
  }
  return line + Eta(progress) + Workers(progress);
}

std::string FormatProgressBar(const Progress& progress, int columns) {
  // One column less than the screen has: a full line would wrap and leave its remains behind.
  const auto width = static_cast<std::size_t>(std::max(1, columns - 1));
  const Column workers{Workers(progress), IsCalm(progress) ? 3 : 6};
  if (HasTrained(progress)) {
    return Fit({{progress.job, 2}, workers}, width);
  }
  if (!progress.is_training) {
    return Fit(
        {{progress.job + "  ", 2}, {OfProgram(progress), 8}, {Elapsed(progress), 9}, workers},
        width);
  }
  std::vector<Column> parts = {
      {Steps(progress), 9}, {Loss(progress), 4}, {Pace(progress), 1}, {Eta(progress), 5}, workers};
  if (progress.steps_total <= 0) {
    return Fit(std::move(parts), width);
  }
  const int percent = Percent(progress);
  parts.insert(parts.begin(), {std::to_string(percent) + " % ", 8});
  if (columns < kBarColumnsMin) {
    return Fit(std::move(parts), width);  // the figures say more than a bar
  }
  // The pace goes before the bar does, and the bar takes what is left.
  if (WidthOf(parts) + kBarWidthMin + 1 > width) {
    std::erase_if(parts, [](const Column& part) { return part.worth == 1; });
  }
  const std::size_t taken = WidthOf(parts) + 1;
  const std::size_t room = width > taken ? std::min(width - taken, kBarWidthMax) : 0;
  if (room >= kBarWidthMin) {
    parts.insert(parts.begin(), {Bar(percent, room), 2});
  }
  return Fit(std::move(parts), width);
}

void Console::Tell(std::string_view line) {
  if (!options_.is_quiet) {
    Print(line);
  }
}

void Console::Print(std::string_view line) {
  Clear();
  std::string text(line);
  if (!text.ends_with('\n')) {
    text += '\n';
  }
  Write(text);
}

void Console::Show(const Progress& progress, TimePoint now) {
  if (is_silent_ || options_.is_quiet || now < next_show_) {
    return;
  }
  next_show_ = now + (options_.is_terminal ? options_.bar_interval : options_.line_interval);
  const int columns = Columns();
  const std::string line =
      options_.is_terminal ? FormatProgressBar(progress, columns) : FormatProgress(progress);
  if (line == last_line_ && (bar_columns_ > 0 || !options_.is_terminal)) {
    return;
  }
  last_line_ = line;
  if (options_.is_terminal) {
    Write(EraseBar(bar_columns_, columns) + line);
    bar_columns_ = line.size();
  } else {
    Write(line + "\n");
  }
}

void Console::Clear() {
  if (bar_columns_ > 0) {
    Write(EraseBar(std::exchange(bar_columns_, 0), Columns()));
  }
}

void Console::Write(std::string_view bytes) {
  if (is_silent_) {
    return;
  }
  is_silent_ = !WriteAll(options_.fd, bytes).ok();
}

int Console::Columns() const {
  winsize size{};
  return ::ioctl(options_.fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                         : kColumnsDefault;
}

}  // namespace lockstep::control

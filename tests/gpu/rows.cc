#include "tests/gpu/rows.h"

#include <algorithm>
#include <cstdio>

namespace lockstep::gpu {
namespace {

// One line, one field.
std::string Plain(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
  return text;
}

}  // namespace

void PrintRow(const std::string& what,
              const std::string& figure,
              const std::string& bar,
              const std::string& verdict) {
  std::printf("%s\t%s\t%s\t%s\n",
              Plain(what).c_str(),
              Plain(figure).c_str(),
              Plain(bar).c_str(),
              Plain(verdict).c_str());
  std::fflush(stdout);  // a program that is ended leaves what it has seen
}

bool PrintBar(const std::string& what,
              const std::string& figure,
              const std::string& bar,
              bool is_held) {
  PrintRow(what, figure, bar, is_held ? "held" : "MISSED");
  return is_held;
}

std::string OneDecimal(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

}  // namespace lockstep::gpu

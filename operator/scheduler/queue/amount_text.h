#pragma once

#include <cstdint>
#include <string>

namespace lockstep::control {

// The two sides of a comparison as people read them: "3 GPUs" and "0", "64 GiB memory" and "24
// GiB".
struct Figures {
  std::string needed;
  std::string found;
};

// Figures of amounts of one resource. Rounding never makes a shortfall read as equality.
Figures FiguresOf(const std::string& resource, int64_t needed, int64_t found);

// "4 GPUs", "2.5 CPU", "16 GiB memory".
std::string AmountText(const std::string& resource, int64_t amount);

// "4 GPUs are", "1 GPU is".
std::string AmountIs(const std::string& resource, int64_t amount);

}  // namespace lockstep::control

#pragma once

#include <compare>
#include <string>

namespace lockstep::control {

// Which job: unique at any one moment. A later job may have the same; its uid tells them apart.
struct JobId {
  std::string namespace_name;
  std::string name;

  friend auto operator<=>(const JobId&, const JobId&) = default;
};

}  // namespace lockstep::control

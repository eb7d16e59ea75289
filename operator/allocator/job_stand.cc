#include "operator/allocator/job_stand.h"

namespace lockstep::control {

std::string GangNameOf(const JobId& key) {
  return key.namespace_name + "/" + key.name;
}

JobId JobOfGang(const std::string& gang) {
  const std::size_t slash = gang.find('/');
  return {gang.substr(0, slash), gang.substr(slash + 1)};
}

}  // namespace lockstep::control

#include "common/base/testing/paths.h"

namespace lockstep {

std::string RepositoryFile(const std::string& path) {
  return LOCKSTEP_REPOSITORY "/" + path;
}

std::string BuiltFile(const std::string& path) {
  return LOCKSTEP_BUILD "/" + path;
}

}  // namespace lockstep

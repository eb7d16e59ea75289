#pragma once

// Where tests find files. Compiled apart from them: what knows a checkout's folder is compiled anew
// in each, so that every test can be reused in others.

#include <string>

namespace lockstep {

// A file or folder of the repository, such as "docs/reference/environment.md".
std::string RepositoryFile(const std::string& path);

// What the build has made, such as "bin/lockstep-runtime".
std::string BuiltFile(const std::string& path);

}  // namespace lockstep

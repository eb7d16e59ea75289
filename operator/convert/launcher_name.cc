#include "operator/convert/launcher_name.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep::control {
namespace {

std::string_view BaseName(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

// One that is run as a module of Python.
struct LauncherModule {
  std::string_view name;
  Launcher launcher = Launcher::kTorchrun;
  std::string_view local_rank_argument = {};
};

constexpr std::array<LauncherModule, 5> kModules = {{
    {"torch.distributed.run"},
    {"torch.distributed.elastic.run"},
    {"torch.distributed.launch",
     Launcher::kTorchrun,
     "--local-rank (before torch 2: --local_rank)"},
    {"accelerate.commands.launch", Launcher::kAccelerate},
    {"deepspeed.launcher.runner", Launcher::kDeepspeed, "--local_rank"},
}};

// Where the name of the module stands that a command of Python's runs; 0: it runs none. What
// stands before it ("-u") is the launcher's own, which starts its program without that.
std::size_t ModuleIndex(const std::vector<std::string>& words) {
  if (words.empty() || !IsPython(words[0])) {
    return 0;
  }
  for (std::size_t i = 1; i + 1 < words.size() && words[i].starts_with('-'); ++i) {
    const std::string& word = words[i];
    if (word == "-W" || word == "-X") {
      ++i;  // past its value
      continue;
    }
    const bool is_group = word.find_first_of("-cWX", 1) == std::string::npos;  // "-um"
    if (is_group && word.ends_with('m')) {
      return i + 1;
    }
    if (word == "-c") {
      return 0;
    }
  }
  return 0;
}

}  // namespace

bool IsPython(std::string_view word) {
  return BaseName(word).starts_with("python");
}

LauncherName FindLauncher(const std::vector<std::string>& words) {
  const std::string_view first = words.empty() ? "" : BaseName(words[0]);
  if (first == "torchrun") {
    return {Launcher::kTorchrun};
  }
  constexpr std::array<std::string_view, 5> kOfMpi = {
      "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "mpirun.real"};
  if (std::find(kOfMpi.begin(), kOfMpi.end(), first) != kOfMpi.end()) {
    return {Launcher::kMpirun};
  }
  if (first == "horovodrun") {
    return {Launcher::kHorovodrun};
  }
  if (first == "accelerate-launch") {
    return {Launcher::kAccelerate};
  }
  if (first == "accelerate" && words.size() > 1 && words[1] == "launch") {
    return {Launcher::kAccelerate, 2};
  }
  if (first == "deepspeed" || first == "ds") {
    return {Launcher::kDeepspeed, 1, "python3", "--local_rank"};
  }
  if (const std::size_t at = ModuleIndex(words); at > 0) {
    const auto found = std::find_if(kModules.begin(), kModules.end(), [&](const auto& module) {
      return module.name == words[at];
    });
    if (found != kModules.end()) {
      return {found->launcher, at + 1, words[0], std::string(found->local_rank_argument)};
    }
  }
  return {};
}

}  // namespace lockstep::control

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::control {

// What gives way to the program that it starts: Lockstep starts every rank itself. Other launchers,
// torchrun first of all, stay in the command.
enum class Launcher { kNone, kMpirun, kHorovodrun };

// "mpirun", "horovodrun"; empty of none.
std::string_view NameOf(Launcher launcher);

// A command that starts a program on many ranks, taken apart.
struct LaunchCommand {
  Launcher launcher = Launcher::kNone;
  std::vector<std::string> program{};  // without a launcher: the command as it is
  std::string path{};                  // of the field of the foreign manifest where it stands
  std::optional<int64_t> processes_per_pod{};
  std::optional<int64_t> process_count{};     // in all
  std::vector<std::string> unknown_counts{};  // options whose numbers are not in the file
  std::string working_directory{};            // of the program, where mpirun says one
  std::vector<std::pair<std::string, std::string>> environment{};  // variables given on its line
  std::vector<std::string> handed_on{};  // names of variables whose values the launcher's pod has
  std::vector<std::string> dropped{};    // its other options, as written
  std::string problem{};                 // why the program cannot be told; empty: it can
};

// Reads mpirun and mpiexec of OpenMPI, MPICH and Intel, and horovodrun. An option that it does not
// know makes it unsure where the program begins: that is its problem, as is a program that cannot
// do without mpirun, where that can be seen. `known`: what the container's variables say, for the
// numbers that options refer to, as InlineReferences has it.
LaunchCommand ReadLaunchCommand(const std::vector<std::string>& words,
                                const std::map<std::string, std::string>& known = {});

// The words, with blanks between them.
std::string JoinedWords(const std::vector<std::string>& words);

// "1 rank was asked for".
std::string RanksAskedFor(int64_t count);

// The number of processes that `text` is, from 1 to 9999; 0: none.
int64_t ProcessCountOf(const std::string& text);

// Whether `text` has the value of a variable in it, "$(NAME)".
bool HasReference(const std::string& text);

}  // namespace lockstep::control

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::control {

// What a container starts. mpirun and horovodrun give way to the program behind them, as Lockstep
// starts every rank itself. Other launchers, torchrun first of all, stay in the command.
struct LaunchCommand {
  std::string launcher{};              // "mpirun" or "horovodrun"; empty: neither
  std::vector<std::string> program{};  // without a launcher: the command as it is
  std::string path{};                  // of the field of the foreign manifest where it stands
  std::optional<int64_t> processes_per_pod{};
  std::optional<int64_t> process_count{};     // in all
  std::vector<std::string> unknown_counts{};  // options whose numbers are not in the file
  std::string working_directory{};            // of the program, where mpirun says one
  // Variables that its line gives every rank; without a value: that of the launcher's pod.
  std::vector<std::pair<std::string, std::optional<std::string>>> variables{};
  std::vector<std::string> dropped{};  // its other options, as written
  std::string problem{};               // why the program cannot be told; empty: it can

  // Whether mpirun or horovodrun starts the program.
  bool is_of_mpi() const { return !launcher.empty(); }
};

// Reads mpirun and mpiexec of OpenMPI, MPICH and Intel, and horovodrun. An option that it does not
// know makes it unsure where the program begins: that is its problem, as is a program that cannot
// do without mpirun, where that can be seen. `known`: what the container's variables say, for the
// numbers that options refer to, as InlineReferences has it.
LaunchCommand ReadLaunchCommand(const std::vector<std::string>& words,
                                const std::map<std::string, std::string>& known = {});

// The words, with blanks between them.
std::string JoinedWords(const std::vector<std::string>& words);

// The number of processes that `text` is, from 1 to 9999; 0: none.
int64_t ProcessCountOf(const std::string& text);

}  // namespace lockstep::control

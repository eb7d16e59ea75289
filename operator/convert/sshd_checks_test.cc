#include "operator/convert/sshd_checks.h"

#include <gtest/gtest.h>

#include "operator/convert/testing/converted.h"

namespace lockstep::control {
namespace {

// An MPIJob whose workers have `more` beside sshd.
Conversion WithWorker(const std::string& more) {
  return ConvertText(
      KubeflowJob("MPIJob",
                  Replica("Launcher", "command: [mpirun, t.py]") +
                      Replica("Worker", "ports: [{name: shell, containerPort: 2222}], " + more)));
}

constexpr const char* kWorkersContainer =
    "spec.mpiReplicaSpecs.Worker.template.spec.containers[0].";

TEST(DropChecksOfSshd, ProbesAndHooksOfSshdGoWithIt) {
  for (const auto& [field, check] : std::vector<std::pair<std::string, std::string>>{
           {"readinessProbe", "{tcpSocket: {port: 2222}}"},
           {"livenessProbe", "{tcpSocket: {port: 22}, periodSeconds: 5}"},
           {"startupProbe", "{tcpSocket: {port: shell}}"},
           {"livenessProbe", "{exec: {command: [pgrep, sshd]}}"},
           {"lifecycle.postStart", "{exec: {command: [sh, -c, service ssh start]}}"}}) {
    const std::size_t dot = field.find('.');
    const std::string key = field.substr(0, dot);
    const Conversion conversion = WithWorker(
        dot == std::string::npos ? field + ": " + check : key + ": {postStart: " + check + "}");
    EXPECT_FALSE(FirstContainer(conversion).contains(key)) << check;
    ExpectNote(conversion,
               kWorkersContainer + field +
                   ": not kept: it checks or controls sshd, which no pod of the job runs\n");
  }
}

TEST(DropChecksOfSshd, OthersAreKeptAndToldOf) {
  const Conversion conversion = WithWorker(
      "livenessProbe: {httpGet: {port: 8080}}, lifecycle: {preStop: {exec: {command: [sync]}}}");
  EXPECT_TRUE(FirstContainer(conversion).contains("livenessProbe"));
  EXPECT_TRUE(FirstContainer(conversion)["lifecycle"].contains("preStop"));
  for (const char* const field : {"livenessProbe", "lifecycle.preStop"}) {
    ExpectNote(conversion,
               std::string(kWorkersContainer) + field +
                   ": kept, but check it: the pod ran sshd before, and runs the program now\n");
  }
}

}  // namespace
}  // namespace lockstep::control

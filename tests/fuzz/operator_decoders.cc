#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "common/json/json.h"
#include "operator/api/decode_job.h"
#include "operator/api/job/encode.h"
#include "operator/api/job_manifest.h"
#include "tests/fuzz/decoder_kit.h"
#include "tests/fuzz/decoder_lists.h"

namespace lockstep::fuzz {
namespace {

using control::DecodedJob;
using control::DecodeTrainingJob;
using control::EncodeTrainingJob;
using control::Manifest;
using control::ReadManifest;
using control::TrainingJob;

Result<TrainingJob> ReadBack(std::string_view text) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Json document, ParseJson(text));
  DecodedJob decoded = DecodeTrainingJob(document);
  if (!decoded.ok()) {
    return decoded.errors.front();
  }
  return std::move(decoded.job);
}

Finding RunManifest(std::string_view bytes) {
  const Manifest manifest = ReadManifest(bytes, "job.yaml");
  if (!manifest.ok()) {
    return Refused(manifest.problems.front().error);
  }
  for (const TrainingJob& job : manifest.jobs) {
    Finding finding = CheckReadBack(job, DumpJson(EncodeTrainingJob(job)), ReadBack);
    if (!finding.broken_promise.empty()) {
      return finding;
    }
  }
  return Accepted(manifest.jobs.empty() ? "a manifest without a job is accepted" : "");
}

std::vector<std::string> ManifestSeeds() {
  return {R"(# all of it
apiVersion: lockstep.dev/v1
kind: TrainingJob
metadata: {name: mnist, namespace: "default", labels: {team: a}}
spec:
  strategy: MultiWorkerMirrored
  roles:
  - name: worker
    replicas: 2
    gpus: 0
    restartPolicy: ExitCode
    template:
      spec:
        containers:
        - name: main
          image: &image busybox
          command: [sh, -c, "exit 0"]
          env: [{name: A, value: 'b'}]
          resources: {requests: {cpu: 500m, memory: 1Gi}}
  - name: evaluator
    replicas: 1
    template: {spec: {containers: [{name: main, image: *image, command: [sh]}]}}
)",
          R"({"apiVersion":"lockstep.dev/v1","kind":"TrainingJob","metadata":{"name":"a"},)"
          R"("spec":{"strategy":"Mirrored","roles":[{"name":"worker","replicas":1,"template":)"
          R"({"spec":{"containers":[{"name":"main","command":["true"]}]}}}]}})"};
}

constexpr std::array<Decoder, 1> kOperatorDecoders = {{
    {"manifest", RunManifest, ManifestSeeds},
}};

}  // namespace

std::span<const Decoder> OperatorDecoders() {
  return kOperatorDecoders;
}

}  // namespace lockstep::fuzz

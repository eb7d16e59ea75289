#include "operator/api/queue/queue_usage_text.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

struct Row {
  const char* what;
  QueueAmounts nominal;
  QueueAmounts used;
  const char* text;
};

TEST(QueueUsageText, UsedAndQuotaAreShownByResourceWhateverTheQueueIsMadeOf) {
  const std::vector<Row> rows = {
      {"nothing", {}, {}, ""},
      {"GPUs", {{"nvidia.com/gpu", 16}}, {{"nvidia.com/gpu", 4}}, "gpu 4/16"},
      {"CPU alone", {{"cpu", 64'000}}, {{"cpu", 10'500}, {"memory", kGiB}}, "cpu 10.5/64"},
      {"nothing used", {{"cpu", 64'000}}, {}, "cpu 0/64"},
      {"order",
       {{"cpu", 64'000}, {"memory", 256 * kGiB}, {"nvidia.com/gpu", 16}, {"rdma/hca", 8}},
       {{"cpu", 250}, {"memory", 80 * kGiB + kGiB / 2}, {"nvidia.com/gpu", 4}},
       "gpu 4/16, hca 0/8, cpu 0.2/64, memory 80.5Gi/256Gi"},
      {"nearly the next unit", {{"memory", kGiB}}, {{"memory", kGiB - 4096}}, "memory 1Gi/1Gi"},
      {"two vendors",
       {{"nvidia.com/gpu", 16}, {"amd.com/gpu", 8}},
       {{"amd.com/gpu", 2}},
       "nvidia.com/gpu 0/16, amd.com/gpu 2/8"},
      {"many",
       {{"a.b/c", 1}, {"a.b/d", 1}, {"a.b/e", 1}, {"cpu", 1000}, {"memory", 1}, {"x", 3}},
       {},
       "c 0/1, d 0/1, e 0/1, cpu 0/1 and 2 more"},
      {"no quota", {}, {{"nvidia.com/gpu", 4}, {"cpu", 8000}}, "gpu 4, cpu 8"},
  };
  for (const Row& row : rows) {
    QueueStatus status;
    status.nominal = row.nominal;
    status.used = row.used;
    EXPECT_EQ(UsageText(status), row.text) << row.what;
  }
}

}  // namespace
}  // namespace lockstep::control

#include "trainer-runtime/supervisor/status/pod_metrics.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

TEST(PodMetrics, EachFamilyIsThereOnceWithTheSamplesOfAllProcesses) {
  const std::string first =
      "# HELP steps Done.\n# TYPE steps counter\nsteps 4\n"
      "# HELP peers By state.\n# TYPE peers gauge\n"
      "peers{state=\"lost\"} 1\npeers{state=\"silent\"} 0\n";
  const std::string second =
      "# HELP steps Done.\n# TYPE steps counter\nsteps 5\n"
      "# HELP peers By state.\n# TYPE peers gauge\n"
      "peers{state=\"lost\"} 2\npeers{state=\"silent\"} 3\n";
  EXPECT_EQ(JoinMetricsPages({first, second}),
            "# HELP steps Done.\n# TYPE steps counter\n"
            "steps{local_rank=\"0\"} 4\nsteps{local_rank=\"1\"} 5\n"
            "# HELP peers By state.\n# TYPE peers gauge\n"
            "peers{local_rank=\"0\",state=\"lost\"} 1\n"
            "peers{local_rank=\"0\",state=\"silent\"} 0\n"
            "peers{local_rank=\"1\",state=\"lost\"} 2\n"
            "peers{local_rank=\"1\",state=\"silent\"} 3\n");
}

TEST(PodMetrics, PageOfTheOnlyProcessIsLeftAsItIs) {
  EXPECT_EQ(JoinMetricsPages({"# HELP a A.\na 1\n"}), "# HELP a A.\na 1\n");
}

TEST(PodMetrics, ProcessThatHasToldNothingIsLeftOut) {
  EXPECT_EQ(JoinMetricsPages({"", "# HELP a A.\n# TYPE a gauge\na 1\n"}),
            "# HELP a A.\n# TYPE a gauge\na{local_rank=\"1\"} 1\n");
  EXPECT_EQ(JoinMetricsPages({"", ""}), "");
}

TEST(PodMetrics, FamilyThatOneProcessAloneHasIsThere) {
  EXPECT_EQ(JoinMetricsPages({"# HELP a A.\na 1\n", "# HELP b B.\nb 2"}),
            "# HELP a A.\na{local_rank=\"0\"} 1\n# HELP b B.\nb{local_rank=\"1\"} 2");
}

}  // namespace
}  // namespace lockstep::runtime

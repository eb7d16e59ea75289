#include <dlfcn.h>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/engine/torch/torch_engine.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;

// Netlib's BLAS is three to eleven times slower and easily installed by accident: LibTorch's
// package pulls it in when nothing else provides libblas.so.3.
TEST(TorchEngine, LinearAlgebraIsOpenBlas) {
  void* const symbol = ::dlsym(RTLD_DEFAULT, "sgemm_");
  ASSERT_NE(symbol, nullptr);
  Dl_info found{};
  ASSERT_NE(::dladdr(symbol, &found), 0);
  const std::string library = std::filesystem::canonical(found.dli_fname).string();
  EXPECT_THAT(library, HasSubstr("openblas"))
      << "install libopenblas0-pthread, or choose it: update-alternatives --config libblas.so.3-"
         "x86_64-linux-gnu";
  TrainingSpec spec;
  spec.model.input_shape = {4};
  spec.model.layers = {DenseLayer{.units = 3}};
  spec.loss = {LossType::kSparseCategoricalCrossentropy, true};
  EXPECT_THAT(MakeTorchEngine(spec).value()->Description(), HasSubstr("OpenBLAS"));
}

}  // namespace
}  // namespace lockstep::runtime

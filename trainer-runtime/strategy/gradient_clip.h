#pragma once

#include <optional>
#include <span>

namespace lockstep::runtime {

// Shortens gradients whose length (the square root of the sum of their squares, over all
// parameters) is above `norm_max` to that length; leaves others, and such that are not finite, as
// they are. The squares are added in one order on every CPU, so ranks with equal gradients stay
// equal. Source: Pascanu, Mikolov, Bengio 2013; Keras's global_clipnorm.
void ClipGradients(double norm_max, std::span<float> gradients);

// What gradients of that length are multiplied by; nullopt where they stay.
std::optional<float> ClipFactor(double norm_max, double length);

}  // namespace lockstep::runtime

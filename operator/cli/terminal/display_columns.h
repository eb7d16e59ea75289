#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep::control {

// How many columns of a terminal `text` takes: UTF-8, two for what East Asia writes wide and for
// pictures, none for what is put onto the letter before. A byte that is no UTF-8 takes one.
// Source: Unicode Standard Annex 11, by blocks. Pure.
std::size_t DisplayColumns(std::string_view text);

}  // namespace lockstep::control

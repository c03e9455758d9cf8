// Checking and performing a launch, for both the program (host.cpp) and the library (library.cpp).
#pragma once
#include "runtime.h"

#pragma GCC visibility push(hidden)
namespace emu {
// Why this launch is refused, as cuLaunchKernel would; nullptr: it is not.
const char *refuse(const Entry *entry, Index grid, Index block, size_t shared, int parameters);
}  // namespace emu
#pragma GCC visibility pop

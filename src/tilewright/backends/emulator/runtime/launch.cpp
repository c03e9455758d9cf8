// What the CUDA driver checks before a launch.
#include "launch.h"

namespace emu {

const char *refuse(const Entry *entry, Index grid, Index block, size_t shared, int parameters) {
    if (!entry) return "there is no such kernel";
    if (parameters != entry->parameters) return "the kernel takes another number of parameters";
    if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z) return "the grid or block has no extent";
    if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) return "the grid has too many blocks";
    if ((uint64_t)block.x * block.y * block.z > 1024 || block.z > 64) return "the block has too many threads";
    if (grid.x % entry->cluster) return "the grid is no whole number of clusters";
    if (shared > MOST_SHARED) return "a block has at most 227 KiB of shared memory";
    return nullptr;
}

}  // namespace emu

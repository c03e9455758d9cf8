// Functions on bytes and texts, as C has them.
#pragma once
#include "base.h"
#include <string.h>

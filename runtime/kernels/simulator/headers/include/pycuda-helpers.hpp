// PyCUDA's helpers, but for those of textures and surfaces.
#pragma once
#include "pycuda-complex.hpp"

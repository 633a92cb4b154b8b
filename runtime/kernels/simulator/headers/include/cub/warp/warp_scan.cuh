// Part of CUB for the simulator.
#pragma once
#include "../cub.cuh"

#include "cbytes.h"

// Everything is inline: see the header.

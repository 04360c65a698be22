/* Functions in C. The module has no library below it; shout.wasm is what this makes, in this folder:
 *   clang --target=wasm32 -O2 -nostdlib -I../../guest -Wl,--no-entry -Wl,--strip-all -o shout.wasm shout.c
 *
 *   CREATE FUNCTION plus(x bigint, y bigint) RETURNS bigint LANGUAGE wasm IMMUTABLE AS 'shout.wasm';
 *   CREATE FUNCTION shout(s text) RETURNS text LANGUAGE wasm IMMUTABLE AS 'shout.wasm';
 *   CREATE FUNCTION total(x bigint[]) RETURNS bigint LANGUAGE wasm IMMUTABLE AS 'shout.wasm';
 */
#include "diligence.h"

/* Row by row: numbers come and go as they are. */
DILIGENCE_EXPORT("plus") int64_t plus(int64_t x, int64_t y) { return (int64_t)((uint64_t)x + (uint64_t)y); }

/* Whole columns: a text has as many bytes as before, so offsets and validity are those of the argument. */
DILIGENCE_EXPORT("shout") uint32_t shout(uint32_t rows, const diligence_column *given, diligence_column *result) {
    uint32_t bytes = diligence_offsets(given)[rows];
    const uint8_t *from = diligence_values(given);
    uint8_t *to = diligence_block(bytes);
    for (uint32_t at = 0; at < bytes; at++) to[at] = from[at] >= 'a' && from[at] <= 'z' ? from[at] - 32 : from[at];
    result->validity = given->validity;
    result->offsets = given->offsets;
    result->values = (uint32_t)to;
    return 0;
}

/* Arrays: the sum of the elements that are not NULL. */
DILIGENCE_EXPORT("total") uint32_t total(uint32_t rows, const diligence_column *given, diligence_column *result) {
    const diligence_column *elements = diligence_elements(given);
    const uint32_t *offsets = diligence_offsets(given);
    const int64_t *numbers = diligence_values(elements);
    if (elements->kind != DILIGENCE_BIGINT) return diligence_fail("total takes arrays of bigint");
    int64_t *sums = diligence_block(8 * rows);
    for (uint32_t row = 0; row < rows; row++) {
        uint64_t sum = 0;
        for (uint32_t at = offsets[row]; at < offsets[row + 1]; at++) {
            if (!diligence_is_null(elements, at)) sum += (uint64_t)numbers[at];
        }
        sums[row] = (int64_t)sum;
    }
    result->validity = given->validity;
    result->values = (uint32_t)sums;
    return 0;
}

/* Functions in C. The module has no library below it; shout.wasm is what this makes:
 *   clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -Wl,--export-memory -Wl,--strip-all -o shout.wasm shout.c
 *
 *   CREATE FUNCTION plus(x bigint, y bigint) RETURNS bigint LANGUAGE wasm IMMUTABLE AS 'shout.wasm';
 *   CREATE FUNCTION shout(s text) RETURNS text LANGUAGE wasm IMMUTABLE AS 'shout.wasm';
 */
#include <stdint.h>

#define EXPORT(name) __attribute__((export_name(name)))

/* A column, as docs/functions.md describes it. */
typedef struct {
    uint32_t kind, rows, validity, offsets, values, bytes;
} column;

extern unsigned char __heap_base;
static uint32_t next;

EXPORT("diligence_reset") void reset(void) { next = ((uint32_t)&__heap_base + 7) & ~7u; }

EXPORT("diligence_alloc") uint32_t allocate(uint32_t bytes) {
    if (next == 0) reset();
    uint32_t address = next, end = address + ((bytes + 7) & ~7u);
    uint32_t have = (uint32_t)__builtin_wasm_memory_size(0) << 16;
    if (end > have && __builtin_wasm_memory_grow(0, (end - have + 65535) >> 16) == (unsigned long)-1) return 0;
    next = end;
    return address;
}

/* Row by row: numbers come and go as they are. */
EXPORT("plus") int64_t plus(int64_t x, int64_t y) { return (int64_t)((uint64_t)x + (uint64_t)y); }

/* Whole columns: a text has as many bytes as before, so offsets and validity are those of the argument. */
EXPORT("shout") uint32_t shout(uint32_t rows, const column *given, column *result) {
    const uint32_t *offsets = (const uint32_t *)given->offsets;
    const unsigned char *from = (const unsigned char *)given->values;
    unsigned char *to = (unsigned char *)allocate(offsets[rows]);
    if (!to) __builtin_trap();
    for (uint32_t at = 0; at < offsets[rows]; at++) to[at] = from[at] >= 'a' && from[at] <= 'z' ? from[at] - 32 : from[at];
    result->validity = given->validity;
    result->offsets = given->offsets;
    result->values = (uint32_t)to;
    return 0;
}
